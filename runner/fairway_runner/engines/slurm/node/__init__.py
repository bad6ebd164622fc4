"""What runs on the hosts of a Slurm cluster: Python's standard library from 3.10 on."""
