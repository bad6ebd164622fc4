"""CDKTF constructs for training clusters on Azure, with everything that their programs need.

>>> import fairway_constructs as az
>>> lab = az.EnvironmentStack(az.App(), "lab", location="westeurope")
>>> az.Network(lab, address_space="10.40.0.0/16")
"""

# Each name is imported on first use: an environment is read and checked before cdktf starts
# Node.js, and the generator of `azurerm` works while that is absent.

import re
from dataclasses import is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fairway_constructs.alerts import Alerts as Alerts
    from fairway_constructs.alerts import Budget as Budget
    from fairway_constructs.azure_scope import AzureScope as AzureScope
    from fairway_constructs.azurerm.provider import AzurermProvider as AzurermProvider
    from fairway_constructs.bastion import Bastion as Bastion
    from fairway_constructs.bastion import Gateway as Gateway
    from fairway_constructs.cdk.component import Component as Component
    from fairway_constructs.cdk.elements import DataSource as DataSource
    from fairway_constructs.cdk.elements import Lifecycle as Lifecycle
    from fairway_constructs.cdk.elements import Resource as Resource
    from fairway_constructs.cdk.library import Construct as Construct
    from fairway_constructs.cdk.library import IAspect as IAspect
    from fairway_constructs.cdk.library import Output as Output
    from fairway_constructs.cdk.library import Stack as Stack
    from fairway_constructs.cdk.library import TerraformHclModule as TerraformHclModule
    from fairway_constructs.cdk.synthesis import App as App
    from fairway_constructs.cdk.synthesis import Aspect as Aspect
    from fairway_constructs.cdk.synthesis import Aspects as Aspects
    from fairway_constructs.cloud_init.mounts import MachineProxy as MachineProxy
    from fairway_constructs.cloud_init.mounts import Mount as Mount
    from fairway_constructs.cloud_init.mounts import Mounted as Mounted
    from fairway_constructs.cloud_init.people import Accounts as Accounts
    from fairway_constructs.cloud_init.slurm import SlurmNode as SlurmNode
    from fairway_constructs.clusters.batch.account import AutoStorage as AutoStorage
    from fairway_constructs.clusters.batch.account import BatchAccount as BatchAccount
    from fairway_constructs.clusters.batch.account import (
        BatchUserSubscription as BatchUserSubscription,
    )
    from fairway_constructs.clusters.batch.account import IBatchAccount as IBatchAccount
    from fairway_constructs.clusters.batch.pool import BatchPool as BatchPool
    from fairway_constructs.clusters.batch.pool import Containers as Containers
    from fairway_constructs.clusters.kubernetes.cluster import (
        KubernetesCluster as KubernetesCluster,
    )
    from fairway_constructs.clusters.kubernetes.configuration import (
        KubernetesConfiguration as KubernetesConfiguration,
    )
    from fairway_constructs.clusters.kubernetes.configuration import (
        KubernetesSharedState as KubernetesSharedState,
    )
    from fairway_constructs.clusters.kubernetes.node_pool import (
        KubernetesNodePool as KubernetesNodePool,
    )
    from fairway_constructs.clusters.scale_set_cluster import ScaleSetCluster as ScaleSetCluster
    from fairway_constructs.clusters.single_vm import SingleVm as SingleVm
    from fairway_constructs.clusters.slurm.configuration import SlurmPartition as SlurmPartition
    from fairway_constructs.clusters.slurm.scheduler import SlurmLoginNode as SlurmLoginNode
    from fairway_constructs.clusters.slurm.scheduler import SlurmScheduler as SlurmScheduler
    from fairway_constructs.clusters.slurm.shared_state import (
        SlurmSharedState as SlurmSharedState,
    )
    from fairway_constructs.clusters.ssh import Cluster as Cluster
    from fairway_constructs.egress import FirewallEgress as FirewallEgress
    from fairway_constructs.egress import NatEgress as NatEgress
    from fairway_constructs.environment_stack import EnvironmentStack as EnvironmentStack
    from fairway_constructs.filesystems.azure_files import AzureFiles as AzureFiles
    from fairway_constructs.filesystems.base import FileSystem as FileSystem
    from fairway_constructs.filesystems.blobfuse import Blobfuse as Blobfuse
    from fairway_constructs.filesystems.lustre import BlobImport as BlobImport
    from fairway_constructs.filesystems.lustre import Lustre as Lustre
    from fairway_constructs.filesystems.netapp import NetApp as NetApp
    from fairway_constructs.filesystems.nfs_export import NfsExport as NfsExport
    from fairway_constructs.filesystems.nfs_server import NfsServer as NfsServer
    from fairway_constructs.identity import Grantee as Grantee
    from fairway_constructs.identity import Identity as Identity
    from fairway_constructs.identity import IIdentity as IIdentity
    from fairway_constructs.identity import People as People
    from fairway_constructs.identity import Principal as Principal
    from fairway_constructs.monitoring import IMonitoring as IMonitoring
    from fairway_constructs.monitoring import Monitoring as Monitoring
    from fairway_constructs.network import INetwork as INetwork
    from fairway_constructs.network import Network as Network
    from fairway_constructs.network_access import HasSubnets as HasSubnets
    from fairway_constructs.network_access import InRange as InRange
    from fairway_constructs.network_access import Machines as Machines
    from fairway_constructs.network_access import SubnetRef as SubnetRef
    from fairway_constructs.peering import Peering as Peering
    from fairway_constructs.private_endpoint import PrivateEndpoints as PrivateEndpoints
    from fairway_constructs.protection import delete_lock as delete_lock
    from fairway_constructs.protection import lifecycle_of as lifecycle_of
    from fairway_constructs.registry import IRegistry as IRegistry
    from fairway_constructs.registry import Registry as Registry
    from fairway_constructs.scope import Tags as Tags
    from fairway_constructs.scope import use_resource_group as use_resource_group
    from fairway_constructs.service import RoleAssignment as RoleAssignment
    from fairway_constructs.service import Service as Service
    from fairway_constructs.start_stop_schedule import IdleStop as IdleStop
    from fairway_constructs.start_stop_schedule import StartStopSchedule as StartStopSchedule
    from fairway_constructs.storage import Container as Container
    from fairway_constructs.storage import IStorage as IStorage
    from fairway_constructs.storage import Storage as Storage
    from fairway_constructs.targets import TakesJobs as TakesJobs
    from fairway_constructs.targets import Targets as Targets
    from fairway_constructs.vault import CustomerManagedKey as CustomerManagedKey
    from fairway_constructs.vault import IVault as IVault
    from fairway_constructs.vault import Vault as Vault
    from fairway_core.autoscale.scenario import Autoscale as Autoscale
    from fairway_core.catalog.images import Image as Image
    from fairway_core.catalog.images import image as image
    from fairway_core.catalog.sizes import VmSize as VmSize
    from fairway_core.catalog.sizes import vm_size as vm_size
    from fairway_core.environment.access import Person as Person
    from fairway_core.environment.access import Researcher as Researcher
    from fairway_core.environment.clusters.kubernetes.node_pool import SpotPool as SpotPool
    from fairway_core.environment.clusters.kubernetes.settings import UpgradeWindow as UpgradeWindow
    from fairway_core.environment.clusters.machines import Spot as Spot
    from fairway_core.environment.clusters.slurm.scheduler import SlurmRepository as SlurmRepository
    from fairway_core.environment.clusters.ssh import Repair as Repair
    from fairway_core.environment.filesystems.home_directories import (
        HomeDirectories as HomeDirectories,
    )
    from fairway_core.environment.filesystems.home_directories import SharedQueue as SharedQueue
    from fairway_core.environment.filesystems.lustre import Maintenance as Maintenance
    from fairway_core.environment.filesystems.nfs_server import Backup as Backup
    from fairway_core.environment.filesystems.nfs_server import Disks as Disks
    from fairway_core.environment.network import Dns as Dns
    from fairway_core.environment.network import Firewall as Firewall
    from fairway_core.environment.schedule import Schedule as Schedule
    from fairway_core.findings import UserError as UserError
    from fairway_core.naming import NameParts as NameParts
    from fairway_core.naming import Naming as Naming
    from fairway_core.slurm.cluster import Packages as Packages
    from fairway_core.slurm.cluster import Qos as Qos
    from fairway_core.slurm.scripts import NodeFacts as NodeFacts
    from fairway_core.target import NodeRange as NodeRange
    from fairway_core.target import StorageAccount as StorageAccount
    from fairway_core.target import Target as Target

# The names are read from the imports above, which type checkers need anyway.
_IMPORT = re.compile(r"    from (fairway_\S+) import[ (\n]+(\w+) as")
_MODULES = {
    name: module for module, name in _IMPORT.findall(Path(__file__).read_text(encoding="utf-8"))
}
__all__ = list(_MODULES)


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    found = getattr(import_module(_MODULES[name]), name)
    # Models check their arguments themselves, and rows of the catalogue are not made by programs.
    is_row = isinstance(found, type) and found.__module__.startswith("fairway_core.catalog.")
    is_plain = not isinstance(found, type) or (type(found) is type and is_dataclass(found))
    if is_plain and not is_row and found.__module__.startswith("fairway_core."):
        from fairway_constructs.arguments import checked

        found = checked(found)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted(__all__)
