"""How a run uses its nodes: samples of processors, GPUs, memory, disks, network and InfiniBand."""
