"""From a job to a run that has started, and its tasks that run again."""
