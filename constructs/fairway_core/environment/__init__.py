"""The environment file: one training cluster on Azure, as its owner describes it."""

from fairway_core.environment.access import Person as Person
from fairway_core.environment.addresses import Proxy as Proxy
from fairway_core.environment.clusters import AnyCluster as AnyCluster
from fairway_core.environment.clusters.batch.pool import BatchCluster as BatchCluster
from fairway_core.environment.clusters.kubernetes.cluster import Kubernetes as Kubernetes
from fairway_core.environment.clusters.kubernetes.node_pool import (
    KubernetesNodes as KubernetesNodes,
)
from fairway_core.environment.clusters.machines import Spot as Spot
from fairway_core.environment.clusters.slurm.partition import SlurmNodes as SlurmNodes
from fairway_core.environment.clusters.slurm.scheduler import Slurm as Slurm
from fairway_core.environment.clusters.ssh import Cluster as Cluster
from fairway_core.environment.clusters.ssh import Repair as Repair
from fairway_core.environment.filesystems import AnyFileSystem as AnyFileSystem
from fairway_core.environment.loading import LoadedEnvironment as LoadedEnvironment
from fairway_core.environment.loading import load_environment as load_environment
from fairway_core.environment.loading import read_environment as read_environment
from fairway_core.environment.model import Environment as Environment
from fairway_core.environment.network import Dns as Dns
from fairway_core.environment.network import Firewall as Firewall
from fairway_core.environment.schedule import Schedule as Schedule
from fairway_core.environment.services import Budget as Budget
from fairway_core.environment.state import AzurermState as AzurermState
from fairway_core.environment.state import LocalState as LocalState
from fairway_core.environment.state import OtherState as OtherState
from fairway_core.environment.web import Web as Web
