"""Slurm as Fairway configures it: one description gives the same files on Azure and on one machine.

`render` writes the configuration of a `SlurmCluster`, `install` the programs that it names. Neither
needs Terraform or Azure, so that tests and the simulator run the files that nodes get.
"""

from fairway_core.slurm.cluster import DISTRIBUTION as DISTRIBUTION
from fairway_core.slurm.cluster import MICROSOFT as MICROSOFT
from fairway_core.slurm.cluster import Accounting as Accounting
from fairway_core.slurm.cluster import Cloud as Cloud
from fairway_core.slurm.cluster import Gpus as Gpus
from fairway_core.slurm.cluster import Packages as Packages
from fairway_core.slurm.cluster import Partition as Partition
from fairway_core.slurm.cluster import Paths as Paths
from fairway_core.slurm.cluster import Programs as Programs
from fairway_core.slurm.cluster import Qos as Qos
from fairway_core.slurm.cluster import SlurmCluster as SlurmCluster
from fairway_core.slurm.cluster import Timing as Timing
from fairway_core.slurm.rendering import accounting_commands as accounting_commands
from fairway_core.slurm.rendering import render as render
from fairway_core.slurm.scripts import NodeFacts as NodeFacts
from fairway_core.slurm.scripts import cloud_programs as cloud_programs
from fairway_core.slurm.scripts import install as install
from fairway_core.slurm.scripts import node_scripts as node_scripts
