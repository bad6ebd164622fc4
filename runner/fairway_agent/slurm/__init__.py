"""Runs as jobs of Slurm's."""
