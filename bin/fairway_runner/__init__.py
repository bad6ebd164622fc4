"""Submits training jobs to what was provisioned, and follows them to their end."""
