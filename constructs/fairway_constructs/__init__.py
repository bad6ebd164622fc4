"""CDKTF constructs for training clusters on Azure, one idea a module.

>>> from fairway_constructs import App, AzurermProvider, Network, Stack, place_in_group
>>> stack = Stack(App(), "lab")  # doctest: +SKIP
>>> place = place_in_group(stack, environment="lab", role="net", location="westeurope")
... # doctest: +SKIP
>>> Network(stack, address_space="10.40.0.0/16")  # doctest: +SKIP
"""

# Each name is imported when it is first used: an environment is read and checked before cdktf
# starts Node.js, and the generator of `azurerm` works while that is absent.

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fairway_constructs.alerts import Alerts
    from fairway_constructs.azure_files import AzureFiles
    from fairway_constructs.azurerm.provider import AzurermProvider
    from fairway_constructs.bastion import Bastion
    from fairway_constructs.batch_account import AutoStorage, BatchAccount
    from fairway_constructs.batch_pool import BatchPool, Containers
    from fairway_constructs.batch_user_subscription import BatchUserSubscription
    from fairway_constructs.budget import Budget
    from fairway_constructs.cdk import (
        App,
        Aspect,
        Aspects,
        Component,
        Construct,
        IAspect,
        Output,
        Resource,
        Stack,
    )
    from fairway_constructs.cloud_init.mounts import Mount
    from fairway_constructs.cloud_init.people import Accounts
    from fairway_constructs.cloud_init.proxy import MachineProxy
    from fairway_constructs.cloud_init.slurm import SlurmNode
    from fairway_constructs.cluster import Cluster
    from fairway_constructs.egress import FirewallEgress, NatEgress
    from fairway_constructs.encryption import CustomerKey, customer_key
    from fairway_constructs.environment_stack import EnvironmentStack
    from fairway_constructs.file_system import FileSystem
    from fairway_constructs.gateway import Gateway
    from fairway_constructs.gpu_cluster import GpuCluster
    from fairway_constructs.identity import Grantee, Identity
    from fairway_constructs.idle_stop import IdleStop
    from fairway_constructs.kubernetes.cluster import KubernetesCluster
    from fairway_constructs.kubernetes.configuration import (
        KubernetesConfiguration,
        KubernetesFoundation,
    )
    from fairway_constructs.kubernetes.node_pool import KubernetesNodePool
    from fairway_constructs.lustre import BlobImport, Lustre
    from fairway_constructs.monitoring import Monitoring
    from fairway_constructs.netapp import NetApp
    from fairway_constructs.network import INetwork, Network
    from fairway_constructs.network_access import SubnetRef
    from fairway_constructs.nfs_server import NfsServer
    from fairway_constructs.nodes import NodeSpec
    from fairway_constructs.peering import Peering
    from fairway_constructs.placement import Placement
    from fairway_constructs.private_endpoint import PrivateEndpoints
    from fairway_constructs.registry import IRegistry, Registry
    from fairway_constructs.scope import place_in_group
    from fairway_constructs.single_vm import SingleVm
    from fairway_constructs.slurm.login import SlurmLoginNode
    from fairway_constructs.slurm.scheduler import SlurmScheduler
    from fairway_constructs.slurm.shared_resources import SlurmFoundation
    from fairway_constructs.storage import Container, IStorage, Storage
    from fairway_constructs.tags import Tags
    from fairway_constructs.targets import TakesJobs, Targets
    from fairway_constructs.vault import Vault
    from fairway_constructs.working_hours import WorkingHours

__all__ = [
    "Accounts",
    "Alerts",
    "App",
    "Aspect",
    "Aspects",
    "AutoStorage",
    "AzureFiles",
    "AzurermProvider",
    "Bastion",
    "BatchAccount",
    "BatchPool",
    "BatchUserSubscription",
    "BlobImport",
    "Budget",
    "Cluster",
    "Component",
    "Construct",
    "Container",
    "Containers",
    "CustomerKey",
    "DataSource",
    "EnvironmentStack",
    "FileSystem",
    "FirewallEgress",
    "Gateway",
    "GpuCluster",
    "Grantee",
    "IAspect",
    "INetwork",
    "IRegistry",
    "IStorage",
    "Identity",
    "IdleStop",
    "KubernetesCluster",
    "KubernetesConfiguration",
    "KubernetesFoundation",
    "KubernetesNodePool",
    "Lifecycle",
    "Lustre",
    "MachineProxy",
    "Monitoring",
    "Mount",
    "NatEgress",
    "NetApp",
    "Network",
    "NfsServer",
    "NodeSpec",
    "Output",
    "Peering",
    "Placement",
    "PrivateEndpoints",
    "Registry",
    "Resource",
    "SingleVm",
    "SlurmFoundation",
    "SlurmLoginNode",
    "SlurmNode",
    "SlurmScheduler",
    "Stack",
    "Storage",
    "SubnetRef",
    "Tags",
    "TakesJobs",
    "Targets",
    "Vault",
    "WorkingHours",
    "customer_key",
    "place_in_group",
]

_NAMES = {
    "alerts": "Alerts",
    "azure_files": "AzureFiles",
    "azurerm.provider": "AzurermProvider",
    "bastion": "Bastion",
    "batch_account": "AutoStorage BatchAccount",
    "batch_pool": "BatchPool Containers",
    "batch_user_subscription": "BatchUserSubscription",
    "budget": "Budget",
    "cdk": "App Aspect Aspects Component Construct DataSource IAspect Lifecycle Output Resource "
    "Stack",
    "cloud_init.mounts": "Mount",
    "cloud_init.people": "Accounts",
    "cloud_init.proxy": "MachineProxy",
    "cloud_init.slurm": "SlurmNode",
    "cluster": "Cluster",
    "egress": "FirewallEgress NatEgress",
    "encryption": "CustomerKey customer_key",
    "environment_stack": "EnvironmentStack",
    "file_system": "FileSystem",
    "gateway": "Gateway",
    "gpu_cluster": "GpuCluster",
    "idle_stop": "IdleStop",
    "identity": "Grantee Identity",
    "kubernetes.cluster": "KubernetesCluster",
    "kubernetes.configuration": "KubernetesConfiguration KubernetesFoundation",
    "kubernetes.node_pool": "KubernetesNodePool",
    "lustre": "BlobImport Lustre",
    "monitoring": "Monitoring",
    "netapp": "NetApp",
    "network": "INetwork Network",
    "network_access": "SubnetRef",
    "nfs_server": "NfsServer",
    "nodes": "NodeSpec",
    "peering": "Peering",
    "placement": "Placement",
    "private_endpoint": "PrivateEndpoints",
    "registry": "IRegistry Registry",
    "scope": "place_in_group",
    "single_vm": "SingleVm",
    "slurm.shared_resources": "SlurmFoundation",
    "slurm.login": "SlurmLoginNode",
    "slurm.scheduler": "SlurmScheduler",
    "storage": "Container IStorage Storage",
    "tags": "Tags",
    "targets": "TakesJobs Targets",
    "vault": "Vault",
    "working_hours": "WorkingHours",
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
