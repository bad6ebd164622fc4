"""Use of a run's nodes: samples of processors, GPUs, memory, disks, network and InfiniBand."""

FOLDER = "figures"
"""In a run's folder: a file of samples for each node."""
