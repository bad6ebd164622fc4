"""Slurm on Azure: a scheduler, partitions of nodes that come and go, and what they trust in.

`Foundation` survives the clusters: the vault of the munge key, identities, the disk with the
scheduler's state. `Scheduler` is the VM, and `LoginNode` one for people; a partition is a
`GpuCluster` with `slurm=`.
"""

from fairway_constructs.slurm.login import LoginNode
from fairway_constructs.slurm.scheduler import Scheduler
from fairway_constructs.slurm.shared_resources import Foundation

__all__ = ["Foundation", "LoginNode", "Scheduler"]
