"""Marketplace images, by alias, and the sizes that they fit."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

from fairway_core.catalog.tables import look_up, table
from fairway_core.findings import UserError

if TYPE_CHECKING:
    import datetime
    from collections.abc import Mapping

    from fairway_core.catalog.sizes import VmSize


@dataclass(frozen=True)
class Plan:
    """A Marketplace plan, whose terms must be accepted once per subscription."""

    publisher: str
    product: str
    name: str


@dataclass(frozen=True, kw_only=True)
class Image:
    """A row of images.toml.

    >>> image("ubuntu-hpc-2404").sku
    '2404'
    """

    alias: str
    publisher: str
    offer: str
    sku: str
    version: str
    version_source: str
    families: tuple[str, ...]
    source: str
    date: datetime.date
    node_agent: str
    nfs_client_package: str
    slurm: str = ""
    default_for: tuple[str, ...] = ()
    architecture: Literal["x64", "arm64"] = "x64"
    generation: str = "V2"
    hpc: bool = False
    lustre_client: bool = False
    pools_without_rdma: bool = False
    plan: Plan | None = None
    os_disk_gib: int = 128
    retirement_date: datetime.date | None = None
    successor: str = ""

    @property
    def urn_parts(self) -> dict[str, str]:
        """The parts of its URN, as arguments of a resource."""
        return {
            "publisher": self.publisher,
            "offer": self.offer,
            "sku": self.sku,
            "version": self.version,
        }

    @property
    def urn(self) -> str:
        """The URN in the format of the az CLI: publisher:offer:sku:version."""
        return ":".join(self.urn_parts.values())

    @property
    def pinned(self) -> bool:
        """True if the version is exact, so that a cluster grown later gets the same image."""
        return self.version != "latest"

    def fits(self, size: VmSize, *, own: bool = False) -> bool:
        """Returns True if a VM of that size can run this image with working devices; `own` is for
        an image made from this one, which may have a driver that no image in the catalogue has."""
        has_driver = size.image_family in self.families
        return (
            (has_driver or (own and size.image_family in _missing_drivers()))
            and size.architecture == self.architecture
            and self.generation in size.generations
        )


_OWN = (
    "name a gallery image of your own that has it, and what that was made from:\n"
    "`image_id: /subscriptions/…/versions/1.0.0`, `image: ubuntu-hpc-2404`"
)
_OTHER = "use another size: fairway sizes"


SERVER_IMAGE = "ubuntu-2404"
"""The image of VMs that always run: schedulers, login nodes, NFS servers and gateways."""


def image(name: str) -> Image:
    """Returns the image of that alias, or of a URN whose publisher, offer and sku are known.

    >>> named = image("microsoft-dsvm:ubuntu-hpc:2404:24.04.2026010101")
    >>> named.alias, named.version
    ('ubuntu-hpc-2404', '24.04.2026010101')
    """
    if ":" not in name:
        return look_up(name, images(), "image")
    stem, _, version = name.rpartition(":")
    for row in images().values():
        if version and stem == f"{row.publisher}:{row.offer}:{row.sku}":
            return replace(row, version=version, version_source="the environment file")
    known = sorted({f"{row.publisher}:{row.offer}:{row.sku}:VERSION" for row in images().values()})
    raise UserError.of("unknown-image", f"unknown image `{name}`", "one of: " + ", ".join(known))


def default_image(size: VmSize) -> Image:
    """Returns the default image of clusters of that size. Raises UserError if none fits."""
    for row in images().values():
        if size.image_family in row.default_for and row.fits(size):
            return row
    if driver := _missing_drivers().get(size.image_family):
        message = f"no image in the catalogue has {driver}, which {size.name} needs"
        raise UserError.of("no-image", message, _OWN)
    raise UserError.of("no-image", f"no image in the catalogue fits {size.name}", _OTHER)


def has_image(size: VmSize) -> bool:
    """Returns True if an image in the catalogue fits the size."""
    return any(row.fits(size) for row in images().values())


@cache
def _missing_drivers() -> Mapping[str, str]:
    """Returns the drivers of image families that have no image in the catalogue, by family."""
    return MappingProxyType({name: row["driver"] for name, row in table("images")["own"].items()})


@cache
def images() -> Mapping[str, Image]:
    """Returns all images by alias, in the order of the table."""
    rows: dict[str, Image] = {}
    for alias, row in table("images")["image"].items():
        for key in ("families", "default_for"):
            row[key] = tuple(row.get(key, ()))
        if "plan" in row:
            row["plan"] = Plan(**row["plan"])
        rows[alias] = Image(alias=alias, **row)
    return MappingProxyType(rows)
