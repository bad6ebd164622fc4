"""CDKTF constructs for training clusters on Azure, one idea a module.

>>> from fairway_constructs import App, AzurermProvider, Network, Stack, place_in_group
>>> stack = Stack(App(), "lab")  # doctest: +SKIP
>>> place = place_in_group(stack, environment="lab", role="net", location="westeurope")
... # doctest: +SKIP
>>> Network(stack, place=place, address_space="10.40.0.0/16")  # doctest: +SKIP
"""

# Each name is imported when it is first used: an environment is read and checked before cdktf
# starts Node.js, and the generator of `azurerm` works while that is absent.

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fairway_constructs.alerts import Alerts
    from fairway_constructs.azure_files import AzureFiles
    from fairway_constructs.azurerm.provider import AzurermProvider
    from fairway_constructs.bastion import Bastion
    from fairway_constructs.batch_account import BatchAccount
    from fairway_constructs.batch_pool import BatchPool
    from fairway_constructs.batch_user_subscription import UserSubscription
    from fairway_constructs.budget import Budget
    from fairway_constructs.cdk import App, Aspects, Component, Output, Stack
    from fairway_constructs.egress import FirewallEgress, NatEgress
    from fairway_constructs.encryption import customer_key
    from fairway_constructs.existing_group import ExistingGroup
    from fairway_constructs.existing_network import ExistingNetwork
    from fairway_constructs.existing_storage import ExistingStorage
    from fairway_constructs.gateway import Gateway
    from fairway_constructs.gpu_cluster import GpuCluster
    from fairway_constructs.identity import Grant, Identity
    from fairway_constructs.idle_stop import IdleStop
    from fairway_constructs.kubernetes.cluster import KubernetesCluster
    from fairway_constructs.kubernetes.configuration import Configuration
    from fairway_constructs.kubernetes.node_pool import NodePool
    from fairway_constructs.lustre import Lustre
    from fairway_constructs.monitoring import Monitoring
    from fairway_constructs.netapp import NetApp
    from fairway_constructs.network import Network
    from fairway_constructs.nfs_server import NfsServer
    from fairway_constructs.nodes import NodeSpec
    from fairway_constructs.peering import Peering
    from fairway_constructs.placement import Placement, place_in_group
    from fairway_constructs.private_endpoint import PrivateEndpoints
    from fairway_constructs.registry import Registry
    from fairway_constructs.single_vm import SingleVm
    from fairway_constructs.slurm.login import LoginNode
    from fairway_constructs.slurm.scheduler import Scheduler
    from fairway_constructs.slurm.shared_resources import Foundation
    from fairway_constructs.storage import Storage
    from fairway_constructs.vault import Vault
    from fairway_constructs.working_hours import WorkingHours

__all__ = [
    "Alerts",
    "App",
    "Aspects",
    "AzureFiles",
    "AzurermProvider",
    "Bastion",
    "BatchAccount",
    "BatchPool",
    "Budget",
    "Component",
    "Configuration",
    "ExistingGroup",
    "ExistingNetwork",
    "ExistingStorage",
    "FirewallEgress",
    "Foundation",
    "Gateway",
    "GpuCluster",
    "Grant",
    "Identity",
    "IdleStop",
    "KubernetesCluster",
    "LoginNode",
    "Lustre",
    "Monitoring",
    "NatEgress",
    "NetApp",
    "Network",
    "NfsServer",
    "NodePool",
    "NodeSpec",
    "Output",
    "Peering",
    "Placement",
    "PrivateEndpoints",
    "Registry",
    "Scheduler",
    "SingleVm",
    "Stack",
    "Storage",
    "UserSubscription",
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
    "batch_account": "BatchAccount",
    "batch_pool": "BatchPool",
    "batch_user_subscription": "UserSubscription",
    "budget": "Budget",
    "cdk": "App Aspects Component Output Stack",
    "egress": "FirewallEgress NatEgress",
    "encryption": "customer_key",
    "existing_group": "ExistingGroup",
    "existing_network": "ExistingNetwork",
    "existing_storage": "ExistingStorage",
    "gateway": "Gateway",
    "gpu_cluster": "GpuCluster",
    "idle_stop": "IdleStop",
    "identity": "Grant Identity",
    "kubernetes.cluster": "KubernetesCluster",
    "kubernetes.configuration": "Configuration",
    "kubernetes.node_pool": "NodePool",
    "lustre": "Lustre",
    "monitoring": "Monitoring",
    "netapp": "NetApp",
    "network": "Network",
    "nfs_server": "NfsServer",
    "nodes": "NodeSpec",
    "peering": "Peering",
    "placement": "Placement place_in_group",
    "private_endpoint": "PrivateEndpoints",
    "registry": "Registry",
    "single_vm": "SingleVm",
    "slurm.shared_resources": "Foundation",
    "slurm.login": "LoginNode",
    "slurm.scheduler": "Scheduler",
    "storage": "Storage",
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
