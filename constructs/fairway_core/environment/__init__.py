"""The environment file: one training cluster on Azure, as its owner describes it.

>>> demo = load_environment("stacks/environments/demo.yaml")  # doctest: +SKIP
>>> demo.clusters["pair"].nodes  # doctest: +SKIP
2
"""

from fairway_core.environment.access import Access
from fairway_core.environment.addresses import Proxy, subnet_plan
from fairway_core.environment.batch import Batch, BatchCluster
from fairway_core.environment.cluster import Cluster, Repair, Spot
from fairway_core.environment.clusters import AnyCluster
from fairway_core.environment.filesystems import AnyFileSystem
from fairway_core.environment.filesystems_managed import AzureFiles, Lustre, NetApp
from fairway_core.environment.keys import read_public_keys
from fairway_core.environment.kubernetes import Kubernetes, KubernetesNodes
from fairway_core.environment.loading import LoadedEnvironment, load_environment, read_environment
from fairway_core.environment.model import Environment
from fairway_core.environment.network import Dns, Existing, Firewall, Network, Peering
from fairway_core.environment.nfs_server import Backup, Disks, NfsServer
from fairway_core.environment.people import Person
from fairway_core.environment.schedule import Schedule
from fairway_core.environment.services import (
    Budget,
    Monitoring,
    Policies,
    Registry,
    ResourceGroup,
    Vault,
)
from fairway_core.environment.slurm import LoginNodes, Slurm, SlurmNodes
from fairway_core.environment.state import AzurermState, LocalState, OtherState
from fairway_core.environment.storage import Container, Storage
from fairway_core.environment.web import Web

__all__ = [
    "Access",
    "AnyCluster",
    "AnyFileSystem",
    "AzureFiles",
    "AzurermState",
    "Backup",
    "Batch",
    "BatchCluster",
    "Budget",
    "Cluster",
    "Container",
    "Disks",
    "Dns",
    "Environment",
    "Existing",
    "Firewall",
    "Kubernetes",
    "KubernetesNodes",
    "LoadedEnvironment",
    "LocalState",
    "LoginNodes",
    "Lustre",
    "Monitoring",
    "NetApp",
    "Network",
    "NfsServer",
    "OtherState",
    "Peering",
    "Person",
    "Policies",
    "Proxy",
    "Registry",
    "Repair",
    "ResourceGroup",
    "Schedule",
    "Slurm",
    "SlurmNodes",
    "Spot",
    "Storage",
    "Vault",
    "Web",
    "load_environment",
    "read_environment",
    "read_public_keys",
    "subnet_plan",
]
