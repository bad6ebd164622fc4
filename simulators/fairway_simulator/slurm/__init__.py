"""A Slurm cluster on this machine: real daemons, several node names, a real sshd.

Each node is a slurmd in namespaces of its own, so that it has its own host name and processes, and
dies completely. Everything listens on loopback addresses only. It needs root (as in a container),
and Debian's slurmctld, slurmd, slurm-client, munge and openssh-server.
"""

from fairway_simulator.machines import People
from fairway_simulator.slurm.cluster import SlurmCluster
from fairway_simulator.slurm.daemon import missing

__all__ = ["People", "SlurmCluster", "missing"]
