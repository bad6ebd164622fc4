"""Submission of jobs, from the job to a started run, and retries of its tasks."""
