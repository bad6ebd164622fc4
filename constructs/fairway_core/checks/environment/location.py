"""Rules on the region and the zones of an environment."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairway_core.catalog.disks import disk_kind
from fairway_core.catalog.regions import regions, regions_without_zones
from fairway_core.checks.check import Fault, Subject, check
from fairway_core.findings import Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fairway_core.checks.check import EnvironmentSubject, Occurrence


def _location(subject: EnvironmentSubject) -> Iterator[Occurrence]:
    yield ("location",), {"location": subject.environment.location}


@check("unknown-region", Severity.WARNING, Subject.ENVIRONMENT, at=_location)
def unknown_region(location: str) -> Iterator[Fault]:
    """A region that the catalogue does not know: a typo, or newer than Fairway.

    Wrong:
        location: southcentralusa

    Right:
        location: southcentralus
    """
    if location not in regions():
        from fairway_core.suggestions import did_you_mean

        listed = (
            "if Azure does have it, ignore this check: az account list-locations --output table"
        )
        hint = did_you_mean(location, regions())
        yield Fault(
            f"the region `{location}` is not known", f"{hint}\n{listed}" if hint else listed
        )


def _zoned(subject: EnvironmentSubject) -> Iterator[Occurrence]:
    """What is put into a zone, or spread over several."""
    environment, location = subject.environment, subject.environment.location
    yield ("zone",), {"location": location, "zoned": environment.zone != "none"}
    replication = environment.storage.replication or ""
    yield ("storage", "replication"), {"location": location, "zoned": "ZRS" in replication}
    for name, each in environment.filesystems.items():
        if each.is_zone_redundant:
            yield ("filesystems", name, "replication"), {"location": location, "zoned": True}


@check("no-zones", Severity.WARNING, Subject.ENVIRONMENT, at=_zoned)
def no_zones(location: str, zoned: bool) -> Iterator[Fault]:
    """A zone, or copies in several, in a region that is known to have none: Azure refuses it.

    Wrong:
        location: northcentralus
        zone: 1

    Right:
        location: northcentralus
        zone: none
    """
    if zoned and location in regions_without_zones():
        yield Fault(f"{location} has no availability zones", "set `zone: none`, and use LRS")


def _disks(subject: EnvironmentSubject) -> Iterator[Occurrence]:
    environment = subject.environment
    for name, each in environment.filesystems.items():
        if each.data_disks:
            facts = {"kind": each.data_disks, "zone": environment.zone_number}
            yield ("filesystems", name), {**facts, "location": environment.location}


@check("disks-need-a-zone", Severity.WARNING, Subject.ENVIRONMENT, at=_disks)
def disks_need_a_zone(kind: str, zone: int | None, location: str) -> Iterator[Fault]:
    """Premium SSD v2 or Ultra disks outside of a zone, in a region that may have zones.

    In a region with zones Azure makes them in a zone only; in one without it makes them as they
    are. A warning, as it is not known of every region whether it has any.

    Wrong:
        zone: none
        filesystems:
          data: {disks: {kind: premium_v2}}

    Right:
        location: northcentralus
        zone: none
        filesystems:
          data: {disks: {kind: premium_v2}}
    """
    may_have_zones = location in regions() - regions_without_zones()
    if disk_kind(kind).zonal and zone is None and may_have_zones:
        yield Fault(
            f"if {location} has availability zones, Azure makes `{kind}` disks only in a zone",
            "use `disks: {kind: premium}`, or name a zone",
        )
