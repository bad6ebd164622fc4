"""An Azure Managed Lustre file system, which may present the blobs of a container as files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field

from fairway_core.catalog.limits import lustre_addresses, lustre_sizes
from fairway_core.cost.line_items import LineItem, without_meter
from fairway_core.documents import FieldError, Model, matching, rule
from fairway_core.environment.filesystems.base import EnvironmentParts, FileSystem
from fairway_core.environment.schedule import Day, Time
from fairway_core.fields import NO_EQUAL
from fairway_core.resource_ids import GUID

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fairway_core.environment.clusters import AnyCluster
    from fairway_core.environment.storage import Storage
    from fairway_core.yaml_text import DataPath

# "HPC Cache Resource Provider" in every Entra ID directory: the identity with which Managed Lustre
# reads Blob storage. Source: Azure documentation, Azure Managed Lustre prerequisites.
LUSTRE_APPLICATION_ID = "4392ab71-2ce2-4b0d-8770-b352745c73f5"


class Maintenance(Model, defer_build=True):
    """The half hour of each week in which Azure may update a file system.

    >>> maintenance = Maintenance(day="Sunday", at="03:00")
    """

    day: Day = "Sunday"
    """The day of the week."""
    at: Time = "22:00"
    """When it begins, in UTC, for example `22:00`."""


_SHOW_LUSTRE = f"az ad sp show --id {LUSTRE_APPLICATION_ID} --query id --output tsv"
_OBJECT_ID = matching(
    GUID, "`{}` is not the object id of a service principal", _SHOW_LUSTRE, in_schema=True
)


class Lustre(FileSystem, defer_build=True):
    """An Azure Managed Lustre file system, optionally filled from Blob storage.

    With `import`, the blobs of a container appear as files from the start, and each is read when it
    is first opened. Azure does that as `service_principal`.
    """

    kind: Literal["lustre"]
    """`lustre`: a parallel file system that Azure runs."""
    tib: int = Field(ge=1)
    """Size in TiB, in steps of 48, 16, 8 or 4 by `mbps_per_tib`; it cannot grow."""
    mbps_per_tib: Annotated[Literal[40, 125, 250, 500], NO_EQUAL] = 250
    """Throughput per TiB in MB/s."""
    maintenance: Maintenance = Field(default_factory=Maintenance)
    """When Azure may update it."""
    import_: str | None = Field(default=None, alias="import")
    """The container, under `storage.containers:`, whose blobs it shows as files."""
    service_principal: Annotated[str, _OBJECT_ID] | None = None
    """The object id of "HPC Cache Resource Provider" in your directory."""

    resource_kind = "managed_lustre_file_system"
    subnet_role = "lustre"
    provider = "Microsoft.StorageCache"
    mount_type = "lustre"
    raised_by: ClassVar = {"its size": "raise its `tib:` or `mbps_per_tib:`"}

    @property
    def facts(self) -> tuple[str, ...]:
        """Its size, and the throughput that comes with it."""
        return ("Managed Lustre", f"{self.tib} TiB, {self.mbps_per_tib} MB/s per TiB")

    def cost(self, zone: int | None) -> list[LineItem]:
        """Returns the file system as one part, whose price is unknown."""
        return without_meter("azurerm_managed_lustre_file_system", f"{self.tib} TiB")

    @property
    def size_gib(self) -> int:
        """The size in GiB."""
        return self.tib * 1024

    @property
    def imported(self) -> str | None:
        """The container under `import:`."""
        return self.import_

    @rule
    def _size_is_offered(self) -> None:
        step, most = lustre_sizes(self.mbps_per_tib)
        if self.tib > most or self.tib % step:
            near = step * min(most // step, max(1, (self.tib + step // 2) // step))
            raise FieldError(
                f"with {self.mbps_per_tib} MB/s per TiB, sizes are {step} to "
                f"{most} TiB in steps of {step}, not {self.tib}",
                f"the nearest is `tib: {near}`",
                path=("tib",),
            )

    @rule
    def _reader_is_known(self) -> None:
        if self.import_ is not None and self.service_principal is None:
            raise FieldError(
                "`import:` needs the `service_principal:` that reads the blobs",
                _SHOW_LUSTRE,
                path=("import",),
            )
        if self.import_ is None and self.service_principal is not None:
            raise FieldError(
                "`service_principal:` has no effect without `import:`",
                "leave it out",
                path=("service_principal",),
            )

    @property
    def limits_mbps(self) -> Mapping[str, int]:
        """Throughput in MB/s that comes with its size and level."""
        return {"its size": self.tib * self.mbps_per_tib}

    def check(self, name: str, parts: EnvironmentParts) -> None:
        """Raises FieldError if the import cannot work, or if Azure's services, a zone, or addresses
        for all Lustre file systems are missing."""
        network, path = parts.network, ("filesystems", name)
        self._check_import(name, parts.storage)
        if network.egress == "none":
            raise FieldError(
                "Managed Lustre works only if it reaches Azure's own services",
                "use another `egress:` or another kind of file system",
                path,
            )
        if parts.zone is None:
            raise FieldError(
                "Managed Lustre needs a zone, and `zone: none` names none",
                "name one, for example `zone: 1`, or use another kind of file system",
                (*path, "kind"),
            )
        subnet = network.subnet_range("lustre")
        lustres = (each for each in parts.filesystems.values() if isinstance(each, Lustre))
        needed = sum(lustre_addresses(each.tib) for each in lustres)
        if needed > subnet.num_addresses:
            raise network.too_small(
                f"Lustre needs a subnet of {needed} addresses, "
                f"and {subnet} has {subnet.num_addresses}"
            )

    def _check_import(self, name: str, storage: Storage) -> None:
        if self.import_ is None:
            return
        path, logs = ("filesystems", name, "import"), lustre_log_container(name)
        storage.check_container(self.import_, path)
        if logs in storage.containers:
            raise FieldError(
                f"`{logs}` is where `{name}` logs its imports",
                "choose another name",
                ("storage", "containers", logs),
            )
        if storage.existing:
            raise FieldError(
                "Managed Lustre logs its imports to a container of its own, and Fairway "
                "creates none in an existing account",
                "leave it out, and copy the data to the file system in a job",
                path,
            )
        if not storage.account_keys:
            raise FieldError(
                "Managed Lustre reads Blob storage with the account's keys, which are disabled",
                "set `account_keys: true` under `storage:`; Terraform's state then holds them",
                path,
            )

    def check_mount(self, cluster: AnyCluster, path: DataPath) -> None:
        """Raises FieldError if the image has no Lustre client; node pools get one from a driver."""
        image = cluster.chosen_image
        if image is not None and not image.lustre_client:
            raise FieldError(
                f"image `{image.alias}` has no Lustre client",
                "use an HPC image such as `ubuntu-hpc-2404`, which has one",
                path,
            )


def lustre_log_container(name: str) -> str:
    """Returns the container in which the Lustre file system of that name logs its imports."""
    return f"lustre-{name}-logs"
