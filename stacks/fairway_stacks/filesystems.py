"""Makes the shared file systems of an environment, each by its kind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fairway_constructs.azure_files import AzureFiles
from fairway_constructs.file_system import Blobfuse
from fairway_constructs.lustre import BlobImport, Lustre
from fairway_constructs.netapp import NetApp
from fairway_constructs.nfs_server import NfsServer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fairway_constructs.azurerm.private_endpoint import PrivateEndpoint
    from fairway_constructs.environment_stack import EnvironmentStack
    from fairway_constructs.file_system import FileSystem
    from fairway_constructs.network import INetwork
    from fairway_constructs.storage import IStorage
    from fairway_core.environment import AnyFileSystem, Environment
    from fairway_core.environment import Lustre as LustreSpec

# What decides which class is made, and what that is given as a `BlobImport`.
_NO_ARGUMENTS = ("kind", "import_", "service_principal")


def make_filesystem(
    stack: EnvironmentStack,
    name: str,
    spec: AnyFileSystem,
    *,
    environment: Environment,
    network: INetwork,
    storage: IStorage,
    storage_endpoints: Sequence[PrivateEndpoint] = (),
) -> FileSystem:
    """The file system in a stack.

    By `storage_endpoints` the network reaches `storage`, where it does so privately.
    """
    settings = {key: value for key, value in spec if key not in _NO_ARGUMENTS}
    clients = [network.subnets[role].range for role in environment.node_roles]
    match spec.kind:
        case "nfs_server":
            monitored = environment.monitoring is not None
            subnet = network.subnets["storage"]
            return NfsServer(
                stack, name, subnet=subnet, clients=clients, monitored=monitored, **settings
            )
        case "azure_files":
            return _azure_files(stack, name, settings, environment, network)
        case "netapp":
            return NetApp(
                stack, name, subnet=network.subnets["netapp"], clients=clients, **settings
            )
        case "blobfuse":
            return Blobfuse(stack, name, storage=storage, **settings)
        case "lustre":
            blobs = _blob_import(spec, storage, storage_endpoints)
            subnet = network.subnets["lustre"]
            return Lustre(stack, name, subnet=subnet, blob_import=blobs, **settings)


def _azure_files(
    stack: EnvironmentStack,
    name: str,
    settings: dict[str, Any],
    environment: Environment,
    network: INetwork,
) -> AzureFiles:
    # Without an endpoint of its own the network gets access by its subnet.
    roles = () if network.endpoints else environment.node_roles
    subnet_ids = [network.subnets[role].id for role in roles]
    files = AzureFiles(stack, name, subnet_ids=subnet_ids, **settings)
    if network.endpoints:
        files.private_endpoints(network)
    return files


def _blob_import(
    spec: LustreSpec, storage: IStorage, endpoints: Sequence[PrivateEndpoint]
) -> BlobImport | None:
    if spec.import_ is None or spec.service_principal is None:
        return None
    return BlobImport(
        account_id=storage.id,
        container_id=storage.containers[spec.import_].id,
        service_principal=spec.service_principal,
        ready=endpoints,
    )
