"""What runs on the hosts of a cluster: Python's standard library from 3.10 on, and nothing else."""
