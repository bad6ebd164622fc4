"""The roles by which people who submit jobs use data, and the reasons that Azure shows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence


@dataclass(frozen=True)
class DataRole:
    """A built-in role on a container, or on the Batch account where `container` is None; `key`
    tells it from the others."""

    key: str
    role: str
    reason: str
    container: str | None = None


@dataclass(frozen=True)
class Researcher:
    """Who gets them, by object id: None is the first deployer. `why` ends each reason."""

    key: str
    why: str
    object_id: str | None = None


DEPLOYER = Researcher("deployer", "deployed this first")


def data_roles(containers: Iterable[str], *, pools: bool) -> Iterator[DataRole]:
    """All that submitting takes: Owner and Contributor allow none of it. Source: Azure
    documentation, built-in roles for Storage and Batch."""
    for name in containers:
        role, reason = "Storage Blob Data Contributor", f"Reads and writes the container {name}"
        yield DataRole(f"container-{name}", role, reason, name)
    if pools:
        yield DataRole("batch", "Azure Batch Data Contributor", "Submits jobs")


def researchers_of(named: Sequence[str] | None) -> list[Researcher]:
    """Those of `access.researchers`."""
    if named is None:
        return [DEPLOYER]
    return [Researcher(each, "named under access.researchers", each) for each in named]
