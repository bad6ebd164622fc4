"""Runs on a cluster that Slurm schedules."""
