"""Makes the shared file systems of an environment, each by its kind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from fairway_constructs.azure_files import AzureFiles
    from fairway_constructs.cloud_init import Mount
    from fairway_constructs.existing_network import ExistingNetwork
    from fairway_constructs.lustre import BlobImport, Lustre
    from fairway_constructs.netapp import NetApp
    from fairway_constructs.network import Network
    from fairway_constructs.nfs_server import NfsServer
    from fairway_core.environment import AnyFileSystem, Environment
    from fairway_core.environment import AzureFiles as AzureFilesSpec
    from fairway_core.environment import Lustre as LustreSpec
    from fairway_core.environment import NetApp as NetAppSpec
    from fairway_core.environment import NfsServer as NfsServerSpec
    from fairway_stacks.data import DataStack


class SharedFileSystem(Protocol):
    """What the rest of the stacks sees of a file system of any kind."""

    mount: Mount
    throughput_mbps: int
    limited_by: str


def make_filesystem(
    data: DataStack,
    name: str,
    spec: AnyFileSystem,
    *,
    environment: Environment,
    network: Network | ExistingNetwork,
) -> SharedFileSystem:
    """The file system in the data stack; only what its kind needs is imported."""
    match spec.kind:
        case "nfs_server":
            return _nfs_server(data, name, spec, environment, network)
        case "azure_files":
            return _azure_files(data, name, spec, environment, network)
        case "netapp":
            return _netapp(data, name, spec, environment, network)
        case "lustre":
            return _lustre(data, name, spec, environment, network)


def _nfs_server(
    data: DataStack,
    name: str,
    spec: NfsServerSpec,
    environment: Environment,
    network: Network | ExistingNetwork,
) -> NfsServer:
    from fairway_constructs.nfs_server import NfsServer

    subnets = network.subnets
    return NfsServer(
        data,
        name,
        place=data.place,
        spec=spec,
        subnet_id=subnets["storage"].id,
        clients=[subnets["compute"].range],
        ssh_keys=environment.access.ssh_keys or (),
        protect=environment.protect,
        monitored=environment.monitoring is not None,
    )


def _azure_files(
    data: DataStack,
    name: str,
    spec: AzureFilesSpec,
    environment: Environment,
    network: Network | ExistingNetwork,
) -> AzureFiles:
    from fairway_constructs.azure_files import AzureFiles

    files = AzureFiles(
        data,
        name,
        place=data.place,
        spec=spec,
        # Without an endpoint of its own the network is let in by its subnet.
        subnet_ids=[] if network.endpoints else [network.subnets["compute"].id],
        protect=environment.protect,
    )
    if network.endpoints:
        network.endpoints.connect(
            data,
            f"files-{name}",
            place=data.place,
            service="file",
            resource_id=files.account.id,
        )
    return files


def _netapp(
    data: DataStack,
    name: str,
    spec: NetAppSpec,
    environment: Environment,
    network: Network | ExistingNetwork,
) -> NetApp:
    from fairway_constructs.netapp import NetApp

    subnets = network.subnets
    return NetApp(
        data,
        name,
        place=data.place,
        spec=spec,
        subnet_id=subnets["netapp"].id,
        clients=[subnets["compute"].range],
        protect=environment.protect,
    )


def _lustre(
    data: DataStack,
    name: str,
    spec: LustreSpec,
    environment: Environment,
    network: Network | ExistingNetwork,
) -> Lustre:
    from fairway_constructs.lustre import Lustre

    return Lustre(
        data,
        name,
        place=data.place,
        spec=spec,
        subnet_id=network.subnets["lustre"].id,
        blob_import=_blob_import(data, spec),
        protect=environment.protect,
    )


def _blob_import(data: DataStack, spec: LustreSpec) -> BlobImport | None:
    from fairway_constructs.azurerm.private_endpoint import PrivateEndpoint
    from fairway_constructs.lustre import BlobImport

    if spec.import_ is None or spec.service_principal is None:
        return None
    endpoint = data.node.try_find_child("storage-endpoint")
    return BlobImport(
        account_id=data.storage.account.id,
        container_id=data.storage.containers[spec.import_].id,
        service_principal=spec.service_principal,
        ready=[endpoint] if isinstance(endpoint, PrivateEndpoint) else [],
    )
