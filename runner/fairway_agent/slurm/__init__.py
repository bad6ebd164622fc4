"""Runs as Slurm jobs."""
