"""The environment file: one training cluster on Azure, as its owner describes it.

>>> demo = load_environment("stacks/environments/demo.yaml")  # doctest: +SKIP
>>> demo.clusters["pair"].nodes  # doctest: +SKIP
2
"""

from fairway_core.environment.access import Person
from fairway_core.environment.addresses import Proxy
from fairway_core.environment.batch import BatchCluster
from fairway_core.environment.cluster import Cluster, Repair, Spot
from fairway_core.environment.clusters import AnyCluster
from fairway_core.environment.filesystems import AnyFileSystem
from fairway_core.environment.filesystems_managed import AzureFiles, Lustre, NetApp
from fairway_core.environment.kubernetes import Kubernetes, KubernetesNodes
from fairway_core.environment.loading import LoadedEnvironment, load_environment, read_environment
from fairway_core.environment.model import Environment
from fairway_core.environment.network import Dns, Existing, Firewall
from fairway_core.environment.nfs_server import Backup, Disks, NfsServer
from fairway_core.environment.schedule import Schedule
from fairway_core.environment.services import Budget, Monitoring
from fairway_core.environment.slurm import Slurm, SlurmNodes
from fairway_core.environment.state import AzurermState, LocalState, OtherState
from fairway_core.environment.web import Web

__all__ = [
    "AnyCluster",
    "AnyFileSystem",
    "AzureFiles",
    "AzurermState",
    "Backup",
    "BatchCluster",
    "Budget",
    "Cluster",
    "Disks",
    "Dns",
    "Environment",
    "Existing",
    "Firewall",
    "Kubernetes",
    "KubernetesNodes",
    "LoadedEnvironment",
    "LocalState",
    "Lustre",
    "Monitoring",
    "NetApp",
    "NfsServer",
    "OtherState",
    "Person",
    "Proxy",
    "Repair",
    "Schedule",
    "Slurm",
    "SlurmNodes",
    "Spot",
    "Web",
    "load_environment",
    "read_environment",
]
