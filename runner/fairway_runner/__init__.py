"""From a job file to a run on a target: jobs, submission, runs, engines."""
