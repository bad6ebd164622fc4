"""Host names on the internet that an environment's machines need, for the owner of a firewall."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from fairway_core.catalog.tables import table
from fairway_core.environment.network import Firewall

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fairway_core.environment.model import Environment


@dataclass(frozen=True)
class Outbound:
    """A host name, its port, and the reason it is needed; rows of egress.toml."""

    name: str
    port: int
    reason: str


def outbound(environment: Environment) -> list[Outbound]:
    """Returns the names that a firewall or a proxy must allow, or none without either; those that
    only jobs ask for are not included."""
    network = environment.network
    is_own = network.existing is None and not isinstance(network.egress, Firewall)
    if is_own and network.proxy is None:
        return []
    wanted = {*_needs(environment), *(["web"] if environment.web else [])}
    host = urlsplit(environment.web.package).hostname if environment.web else ""
    own = [Outbound(host, 443, "Fairway itself, for the page of `web:`")] if host else []
    if (slurm := environment.scheduler) and not isinstance(slurm.packages, str):
        place = urlsplit(slurm.packages.url)
        own.append(Outbound(place.hostname or "", place.port or 443, "packages of Slurm"))
    return own + [
        # The workspace's id is unknown before the first deployment.
        Outbound(
            name.format(location=environment.location, workspace="WORKSPACE-ID"),
            row["port"],
            row["reason"],
        )
        for row in table("egress")["egress"]
        if row["for"] in wanted
        for name in row["names"]
    ]


def _needs(environment: Environment) -> Iterator[str]:
    """Yields the kinds of rows of egress.toml that the environment's parts need."""
    if environment.access.gateway:
        yield "ubuntu"
    for part in (*environment.filesystems.values(), *environment.clusters.values()):
        yield from part.egress
    for manager in environment.managers.values():
        yield from manager.egress(environment.parts)
    if environment.monitoring is not None:
        yield "monitoring"
    if any(person.entra for person in environment.access.users):
        yield "entra"
