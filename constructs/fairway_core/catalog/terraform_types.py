"""Terraform's resource types: what they hold, how they are reached, and what is dangerous."""

from __future__ import annotations

from dataclasses import fields
from functools import cache
from typing import TYPE_CHECKING, Any

from fairway_agent.quick import dataclass
from fairway_core.catalog.tables import look_up, table
from fairway_core.naming import NAME_TAG, ROLE_TAG

if TYPE_CHECKING:
    from collections.abc import Mapping


def holds_data(type: str) -> bool:  # noqa: A002
    """Returns True if deleting a resource of that type deletes data.

    >>> holds_data("azurerm_managed_disk"), holds_data("azurerm_subnet")
    (True, False)
    """
    return type in _types("holds_data")


def is_lost_with(type: str) -> bool:  # noqa: A002
    """Returns True if something is lost with a resource of that type, its own data or that of
    others.

    >>> is_lost_with("azurerm_managed_disk"), is_lost_with("azurerm_resource_group")
    (True, True)
    """
    return holds_data(type) or type in _types("lost_with")


def lost_with(type: str) -> str:  # noqa: A002
    """Returns the loss that comes with a resource of that type, as the end of a sentence.

    >>> lost_with("azurerm_managed_disk")
    'what it holds'
    """
    words: dict[str, str] = table("terraform_types")["with_it"]
    return words.get(type, "what it holds")


def stands_inside_another(type: str) -> bool:  # noqa: A002
    """Returns True if a delete lock on the resource around one of that type keeps this one too."""
    return type in _types("inside_another")


def takes_tags(type: str) -> bool:  # noqa: A002
    """Returns True if a resource of that type can carry tags; for the types with bindings."""
    return type.startswith("azurerm_") and type not in _types("untaggable")


@cache
def _types(name: str) -> frozenset[str]:
    return frozenset(table("terraform_types")[name])


@dataclass(frozen=True)
class PrivateLink:
    """A row of private_links.toml."""

    zone: str
    subresource: str


def private_link(service: str) -> PrivateLink:
    """Returns the facts that a private endpoint to that service needs.

    >>> private_link("blob").zone
    'privatelink.blob.core.windows.net'
    """
    return look_up(service, private_links(), "private-link-service")


@cache
def private_links() -> dict[str, PrivateLink]:
    """Returns all services by name."""
    rows = table("private_links")["service"]
    return {service: PrivateLink(**row) for service, row in rows.items()}


def blob_host(account: str) -> str:
    """Returns the name under which Blob storage of an account answers.

    >>> blob_host("contoso")
    'contoso.blob.core.windows.net'
    """
    return f"{account}.{private_link('blob').zone.removeprefix('privatelink.')}"


@cache
def made_with(type: str) -> tuple[str, ...]:  # noqa: A002
    """Returns the attributes of a scale set or a pool that its nodes keep until they are reimaged.

    >>> "start_task" in made_with("azurerm_batch_pool")
    True
    """
    return tuple(
        table("dangers")["pool_made_with" if type == "azurerm_batch_pool" else "made_with"]
    )


def restarts() -> tuple[str, ...]:
    """Returns the dotted paths of a machine's attributes for whose change it is stopped and
    started."""
    return tuple(table("dangers")["restarts"])


@dataclass(frozen=True)
class Server:
    """A machine that others use, and what becomes of them while it is recreated.

    `stays` holds where its address and its disks do; else it is `emptied`, or `moved`, or both.
    `gone` is what hangs where the machine goes.
    """

    what: str
    meanwhile: str
    stays: str
    emptied: str
    moved: str
    gone: str


def server_of(machine: Mapping[str, Any]) -> Server | None:
    """Returns the server that a machine with these attributes is, by its tags.

    >>> server_of({"tags": {"fairway-role": "nfs-server", "fairway-name": "home"}}).what
    'the file server `home`'
    >>> server_of({"tags": {"fairway-role": "cluster", "fairway-name": "box"}})
    """
    tags = machine.get("tags") or {}
    for each in table("dangers")["servers"]:
        if each["role"] == tags.get(ROLE_TAG):
            name = tags.get(NAME_TAG, "")
            return Server(*(each[field.name].format(name=name) for field in fields(Server)))
    return None


@dataclass(frozen=True)
class Keeping:
    """Attributes of a resource type that keep data, or leave room for it; each `path` has dots.

    `keeps` are numbers and switches of which less keeps less. Of `expires`, with what is deleted,
    nothing and 0 mean never. `room` comes with its unit, `strength` with the values that lock,
    the stronger the higher; `guards` names the attribute that says what the resource guards, and
    what holds without it; `blocks` come with what is lost without them. `replication` says
    what each of its values survives.
    """

    keeps: tuple[str, ...]
    expires: tuple[tuple[str, str], ...]
    room: tuple[tuple[str, str], ...]
    strength: tuple[tuple[str, Mapping[str, int]], ...]
    guards: tuple[tuple[str, str], ...]
    blocks: tuple[tuple[str, str], ...]
    replication: tuple[tuple[str, Mapping[str, list[str]]], ...]


@cache
def keeping(type: str) -> Keeping:  # noqa: A002
    """Returns the attributes of that type that keep data, from the catalogue.

    >>> keeping("azurerm_storage_share").room
    (('quota', 'GiB'),)
    """

    def rows(name: str, *keys: str) -> tuple[Any, ...]:
        found = [row for row in table("dangers")[name] if row["type"] == type]
        return tuple(tuple(row[key] for key in keys) for row in found)

    return Keeping(
        keeps=tuple(path for (paths,) in rows("keeps", "paths") for path in paths),
        expires=rows("expires", "path", "what"),
        room=rows("room", "path", "unit"),
        strength=rows("strength", "path", "levels"),
        guards=rows("guards", "of", "then"),
        blocks=rows("guarding_blocks", "path", "without"),
        replication=rows("replication", "path", "survives"),
    )


def is_broad_role(name: str) -> bool:
    """Returns True if a holder of that role may change much.

    >>> is_broad_role("Owner"), is_broad_role("Storage Blob Data Reader")
    (True, False)
    """
    return name in table("dangers")["broad_roles"]


def open_when() -> Mapping[str, object]:
    """Returns the attributes that open a service to the internet, each with the value that does."""
    found: Mapping[str, object] = table("dangers")["open_when"]
    return found
