"""An Azure Managed Lustre file system, which may present the blobs of a container as files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from fairway_constructs.arguments import checked
from fairway_constructs.azurerm import managed_lustre_file_system as amlfs
from fairway_constructs.cdk import Timeouts
from fairway_constructs.cloud_init.mounts import Mount
from fairway_constructs.filesystems.base import FileSystem
from fairway_constructs.identity import assign_role
from fairway_constructs.protection import delete_lock, lifecycle_of
from fairway_constructs.service import Diagnostics, Service
from fairway_constructs.storage import private_container
from fairway_core.catalog.tables import look_up
from fairway_core.environment.filesystems.lustre import Lustre as LustreSpec
from fairway_core.environment.filesystems.lustre import lustre_log_container
from fairway_core.findings import UserError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fairway_constructs.cdk import Construct, ITerraformDependable
    from fairway_constructs.filesystems.base import Site
    from fairway_constructs.network_access import SubnetRef
    from fairway_constructs.storage import IStorage
    from fairway_core.environment.filesystems.lustre import Maintenance
    from fairway_core.fields import Count
    from fairway_core.resource_ids import ObjectId

_OPTIONS = "noatime,flock,_netdev"

# Large file systems take longer than the provider's default timeouts.
_LONG = Timeouts(create="2h", delete="1h")

# Both on the entire account, as Azure requires: Lustre makes tokens with the account's keys.
# Source: Azure documentation, Azure Managed Lustre prerequisites, access roles.
_ROLES = {"account": "Storage Account Contributor", "blobs": "Storage Blob Data Contributor"}


@checked
@dataclass(frozen=True, kw_only=True)
class BlobImport:
    """The `container` whose blobs become files, and its account, whose keys are enabled.

    Azure reads them as `service_principal`, an object id, once all of `ready` exist.

    >>> BlobImport(storage=storage, container="datasets",
    ...            service_principal="00000000-0000-0000-0000-000000000000")
    """

    storage: IStorage
    container: str
    service_principal: ObjectId
    ready: Sequence[ITerraformDependable] = ()


class Lustre(FileSystem, Service):
    """A parallel file system in a subnet of its kind, in the zone of its stack.

    With `blob_import` a file for each blob exists from the start, and is read when it is first
    opened; a container of its own logs the imports. Written files go back to the container only on
    request: `az amlfs archive`. In a stack with `protect` neither Terraform nor Azure deletes the
    file system; `lock` overrides this for Azure.

    Raises UserError if the stack has no zone.

    >>> lustre = Lustre(stack, "fast", subnet=network.subnet("lustre"),
    ...                 path="/lustre", tib=48)
    >>> lustre.mount, lustre.throughput_mbps
    """

    # Source: Azure Monitor, supported logs of Microsoft.StorageCache/amlFilesystems.
    DIAGNOSTICS = Diagnostics(categories=("AmlfsAuditEvent",), metrics=True)

    def __init__(
        self,
        scope: Construct,
        name: str,
        *,
        path: str,
        tib: Count,
        mbps_per_tib: Literal[40, 125, 250, 500] | None = None,
        maintenance: Maintenance | None = None,
        subnet: SubnetRef,
        blob_import: BlobImport | None = None,
        lock: bool | None = None,
    ) -> None:
        spec = LustreSpec.with_defaults(
            kind="lustre", path=path, tib=tib, mbps_per_tib=mbps_per_tib, maintenance=maintenance
        )
        super().__init__(scope, f"lustre-{name}", spec)
        azure = self.azure
        if azure.zones is None:
            raise UserError.of(
                "no-zone",
                f"Lustre file system `{name}` needs a zone, and its stack has none",
                "give the stack one of the region: EnvironmentStack(…, zone=1)",
            )
        id = f"lustre-{name}-system"
        hsm, ready = _hsm(self, name, blob_import) if blob_import else (None, ())
        self.file_system = amlfs.ManagedLustreFileSystem(
            self,
            id,
            name=azure.name("managed_lustre_file_system", name),
            **azure.common,
            zones=azure.zones,
            sku_name=f"AMLFS-Durable-Premium-{spec.mbps_per_tib}",
            storage_capacity_in_tb=spec.tib,
            subnet_id=subnet.id,
            maintenance_window=amlfs.MaintenanceWindow(
                day_of_week=spec.maintenance.day, time_of_day_in_utc=spec.maintenance.at
            ),
            hsm_setting=hsm,
            timeouts=_LONG,
            lifecycle=lifecycle_of(self),
            depends_on=ready,
        )
        self.id = self.file_system.id
        delete_lock(self, id=id, on=self.file_system, lock=lock)
        self.mount = Mount(
            name=name,
            type=spec.mount_type,
            options=_OPTIONS,
            source=f"{self.file_system.mgs_address}@tcp0:/lustrefs",
            path=spec.path,
            root=True,
        )

    @staticmethod
    def _arguments(section: dict[str, Any], site: Site) -> dict[str, Any]:
        container, principal = section.pop("import_"), section.pop("service_principal")
        if container is None or principal is None:
            return section
        blobs = BlobImport(
            storage=site.storage,
            container=container,
            service_principal=principal,
            ready=site.storage_endpoints,
        )
        return {**section, "blob_import": blobs}


def _hsm(
    scope: Construct, name: str, source: BlobImport
) -> tuple[amlfs.HsmSetting, Sequence[ITerraformDependable]]:
    """Returns the containers of blobs and logs, and the resources that must exist before them."""
    container = look_up(source.container, source.storage.containers, "container")
    logs = private_container(
        scope, f"lustre-{name}-logs", lustre_log_container(name), source.storage.id
    )
    assignments = [
        assign_role(
            scope,
            f"lustre-{name}-{key}",
            on=source.storage.id,
            role_name=role,
            principal_id=source.service_principal,
            new=False,
            why=f"Managed Lustre imports blobs into {name}, and needs this role for it",
        )
        for key, role in _ROLES.items()
    ]
    hsm = amlfs.HsmSetting(container_id=container.id, logging_container_id=logs.id)
    return hsm, [*assignments, *source.ready]
