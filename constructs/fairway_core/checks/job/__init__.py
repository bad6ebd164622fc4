"""Rules on a job and the target that it is sent to."""
