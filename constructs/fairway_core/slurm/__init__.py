"""Slurm as Fairway configures it: one description, the same files for Azure and for one machine.

`render` writes the configuration of a `SlurmCluster`, `install` the programs that it names.
Neither needs Terraform or Azure, so that tests and the simulator run the very files that nodes get.
"""

from fairway_core.slurm.cluster import (
    DISTRIBUTION,
    MICROSOFT,
    Accounting,
    Cloud,
    Gpus,
    Packages,
    Partition,
    Paths,
    Programs,
    Qos,
    SlurmCluster,
    Timing,
)
from fairway_core.slurm.rendering import accounting_commands, render
from fairway_core.slurm.scripts import NodeFacts, cloud_programs, install, node_scripts

__all__ = [
    "DISTRIBUTION",
    "MICROSOFT",
    "Accounting",
    "Cloud",
    "Gpus",
    "NodeFacts",
    "Packages",
    "Partition",
    "Paths",
    "Programs",
    "Qos",
    "SlurmCluster",
    "Timing",
    "accounting_commands",
    "cloud_programs",
    "install",
    "node_scripts",
    "render",
]
