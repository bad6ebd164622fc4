"""Clusters whose jobs Slurm queues: partitions with nodes on demand, and their scheduler."""
