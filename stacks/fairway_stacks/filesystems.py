"""Makes the shared file systems of an environment, each by its kind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from ipaddress import IPv4Network

    from fairway_constructs.azure_files import AzureFiles
    from fairway_constructs.azurerm.private_endpoint import PrivateEndpoint
    from fairway_constructs.cloud_init import Mount
    from fairway_constructs.environment_stack import EnvironmentStack
    from fairway_constructs.existing_network import ExistingNetwork
    from fairway_constructs.existing_storage import ExistingStorage
    from fairway_constructs.lustre import BlobImport, Lustre
    from fairway_constructs.netapp import NetApp
    from fairway_constructs.network import Network
    from fairway_constructs.nfs_server import NfsServer
    from fairway_constructs.storage import Storage
    from fairway_core.environment import AnyFileSystem, Environment
    from fairway_core.environment import AzureFiles as AzureFilesSpec
    from fairway_core.environment import Lustre as LustreSpec
    from fairway_core.environment import NetApp as NetAppSpec
    from fairway_core.environment import NfsServer as NfsServerSpec


class SharedFileSystem(Protocol):
    """What the rest of the stacks sees of a file system of any kind."""

    mount: Mount
    throughput_mbps: int
    limited_by: str


def make_filesystem(
    stack: EnvironmentStack,
    name: str,
    spec: AnyFileSystem,
    *,
    environment: Environment,
    network: Network | ExistingNetwork,
    storage: Storage | ExistingStorage,
    storage_endpoint: PrivateEndpoint | None = None,
) -> SharedFileSystem:
    """The file system in a stack; only what its kind needs is imported.

    `storage_endpoint` is by which the network reaches `storage`, where it does so privately.
    """
    match spec.kind:
        case "nfs_server":
            return _nfs_server(stack, name, spec, environment, network)
        case "azure_files":
            return _azure_files(stack, name, spec, environment, network)
        case "netapp":
            return _netapp(stack, name, spec, environment, network)
        case "lustre":
            blobs = _blob_import(spec, storage, storage_endpoint)
            return _lustre(stack, name, spec, environment, network, blobs)


def _nfs_server(
    stack: EnvironmentStack,
    name: str,
    spec: NfsServerSpec,
    environment: Environment,
    network: Network | ExistingNetwork,
) -> NfsServer:
    from fairway_constructs.nfs_server import NfsServer

    return NfsServer(
        stack,
        name,
        spec=spec,
        subnet_id=network.subnets["storage"].id,
        clients=_clients(environment, network),
        ssh_keys=environment.access.ssh_keys or (),
        protect=environment.protect,
        monitored=environment.monitoring is not None,
    )


def _azure_files(
    stack: EnvironmentStack,
    name: str,
    spec: AzureFilesSpec,
    environment: Environment,
    network: Network | ExistingNetwork,
) -> AzureFiles:
    from fairway_constructs.azure_files import AzureFiles

    files = AzureFiles(
        stack,
        name,
        spec=spec,
        # Without an endpoint of its own the network gets access by its subnet.
        subnet_ids=[]
        if network.endpoints
        else [network.subnets[role].id for role in environment.node_roles],
        protect=environment.protect,
    )
    if network.endpoints:
        network.endpoints.connect(
            stack,
            f"files-{name}",
            service="file",
            resource_id=files.account.id,
        )
    return files


def _netapp(
    stack: EnvironmentStack,
    name: str,
    spec: NetAppSpec,
    environment: Environment,
    network: Network | ExistingNetwork,
) -> NetApp:
    from fairway_constructs.netapp import NetApp

    return NetApp(
        stack,
        name,
        spec=spec,
        subnet_id=network.subnets["netapp"].id,
        clients=_clients(environment, network),
        protect=environment.protect,
    )


def _clients(environment: Environment, network: Network | ExistingNetwork) -> list[IPv4Network]:
    """The ranges that mount what is exported over NFS: the subnets of nodes."""
    return [network.subnets[role].range for role in environment.node_roles]


def _lustre(
    stack: EnvironmentStack,
    name: str,
    spec: LustreSpec,
    environment: Environment,
    network: Network | ExistingNetwork,
    blob_import: BlobImport | None,
) -> Lustre:
    from fairway_constructs.lustre import Lustre

    return Lustre(
        stack,
        name,
        spec=spec,
        subnet_id=network.subnets["lustre"].id,
        blob_import=blob_import,
        protect=environment.protect,
    )


def _blob_import(
    spec: LustreSpec, storage: Storage | ExistingStorage, endpoint: PrivateEndpoint | None
) -> BlobImport | None:
    from fairway_constructs.lustre import BlobImport

    if spec.import_ is None or spec.service_principal is None:
        return None
    return BlobImport(
        account_id=storage.id,
        container_id=storage.containers[spec.import_].id,
        service_principal=spec.service_principal,
        ready=[endpoint] if endpoint else [],
    )
