"""What a plan is searched for: attributes and roles whose change is dangerous."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from fairway_core.catalog.tables import table

if TYPE_CHECKING:
    from collections.abc import Mapping


@cache
def made_with(type: str) -> tuple[str, ...]:  # noqa: A002
    """The attributes of a scale set or a pool that its nodes keep until they are made anew.

    >>> "start_task" in made_with("azurerm_batch_pool")
    True
    """
    return tuple(_facts()["pool_made_with" if type == "azurerm_batch_pool" else "made_with"])


@dataclass(frozen=True)
class Server:
    """A machine that others use; what hangs while it is made anew, and where it is gone."""

    what: str
    meanwhile: str
    gone: str


def server_at(address: str) -> Server | None:
    """The server that Fairway makes at that address.

    >>> server_at("azurerm_linux_virtual_machine.nfs-home-server").what
    'the file server `home`'
    >>> server_at("azurerm_linux_virtual_machine.cluster-box")
    """
    for each in _facts()["servers"]:
        found = re.match(each["address"], address)
        if found:
            words = (each[key].format(name=found[1]) for key in ("what", "meanwhile", "gone"))
            return Server(*words)
    return None


@cache
def keeps(type: str) -> tuple[str, ...]:  # noqa: A002
    """The dotted paths of attributes by which a resource of that type keeps data."""
    found = (each["paths"] for each in _facts()["keeps"] if each["type"] == type)
    return tuple(path for paths in found for path in paths)


@cache
def replication(type: str) -> tuple[str, Mapping[str, tuple[str, ...]]] | None:  # noqa: A002
    """The attribute that says how it is replicated, and what each of its values survives."""
    for each in _facts()["replication"]:
        if each["type"] == type:
            return each["path"], {key: tuple(texts) for key, texts in each["survives"].items()}
    return None


def is_kind_of_its_own(disk: str) -> bool:
    """Whether a disk of that kind can never be of another one.

    >>> is_kind_of_its_own("PremiumV2_LRS"), is_kind_of_its_own("Premium_LRS")
    (True, False)
    """
    return disk in _facts()["disks"]["kinds_of_their_own"]


def is_broad_role(name: str) -> bool:
    """Whether who has that role may change much.

    >>> is_broad_role("Owner"), is_broad_role("Storage Blob Data Reader")
    (True, False)
    """
    return name in _facts()["broad_roles"]


def open_when() -> Mapping[str, object]:
    """The attributes that open a service to the internet, each with the value that does."""
    found: Mapping[str, object] = _facts()["open_when"]
    return found


@cache
def _facts() -> dict[str, Any]:
    facts: dict[str, Any] = table("dangers")["dangers"]
    return facts
