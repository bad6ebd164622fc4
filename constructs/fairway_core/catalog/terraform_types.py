"""Terraform's resource types: the data that they hold, their endpoints, and dangerous changes."""

from __future__ import annotations

from dataclasses import fields
from functools import cache
from typing import TYPE_CHECKING, Any

from fairway_agent.quick import dataclass
from fairway_core.catalog.tables import look_up, table
from fairway_core.naming import NAME_TAG, ROLE_TAG

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def holds_data(type: str) -> bool:  # noqa: A002
    """Returns True if deleting a resource of that type deletes data."""
    return type in _types("holds_data")


def loses_data(type: str) -> bool:  # noqa: A002
    """Returns True if deleting a resource of that type loses its own data or that of others."""
    return holds_data(type) or type in _types("data_lost_with")


def loss_of_deletion(type: str) -> str:  # noqa: A002
    """Returns the loss from deleting a resource of that type, as the end of a sentence."""
    words: dict[str, str] = table("terraform_types")["with_it"]
    return words.get(type, "what it holds")


def is_nested(type: str) -> bool:  # noqa: A002
    """Returns True if a delete lock on the parent also protects a resource of that type."""
    return type in _types("inside_another")


def takes_tags(type: str) -> bool:  # noqa: A002
    """Returns True if a resource of that type can have tags; for types with bindings."""
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
    """Returns the facts that a private endpoint for that service needs."""
    return look_up(service, private_links(), "private-link-service")


@cache
def private_links() -> dict[str, PrivateLink]:
    """Returns all services by name."""
    rows = table("private_links")["service"]
    return {service: PrivateLink(**row) for service, row in rows.items()}


def blob_host(account: str) -> str:
    """Returns the host name of an account's Blob storage.

    >>> blob_host("contoso")
    'contoso.blob.core.windows.net'
    """
    return f"{account}.{private_link('blob').zone.removeprefix('privatelink.')}"


@cache
def reimage_attributes(type: str) -> tuple[str, ...]:  # noqa: A002
    """Returns a scale set's or pool's attributes that nodes keep until they are reimaged."""
    return tuple(
        table("plan_risks")[
            "pool_needs_reimage" if type == "azurerm_batch_pool" else "needs_reimage"
        ]
    )


def restarts() -> tuple[str, ...]:
    """Returns the dotted paths of a machine's attributes whose change restarts it."""
    return tuple(table("plan_risks")["restarts"])


@dataclass(frozen=True)
class Server:
    """A machine that others use, and the effects of recreating it, as phrases for messages. `stays`
    applies if its address and disks stay; otherwise `emptied`, `moved`, or both. `gone` is the
    effect of deleting it."""

    what: str
    meanwhile: str
    stays: str
    emptied: str
    moved: str
    gone: str


def server_of(machine: Mapping[str, Any]) -> Server | None:
    """Returns the server that a machine with these attributes is, by its tags, or None.

    >>> server_of({"tags": {"fairway-role": "nfs-server", "fairway-name": "home"}}).what
    'the file server `home`'
    >>> server_of({"tags": {"fairway-role": "cluster", "fairway-name": "box"}})
    """
    tags = machine.get("tags") or {}
    for each in table("plan_risks")["servers"]:
        if each["role"] == tags.get(ROLE_TAG):
            name = tags.get(NAME_TAG, "")
            return Server(*(each[field.name].format(name=name) for field in fields(Server)))
    return None


@cache
def data_attributes(type: str, kind: str, *columns: str) -> Sequence[tuple[Any, ...]]:  # noqa: A002
    """Returns columns of the rows of that type in a section of plan_risks.toml, which explains
    them: attributes that keep data, or limit its size, by dotted path."""
    rows = (row for row in table("plan_risks")[kind] if row["type"] == type)
    return tuple(tuple(row[column] for column in columns) for row in rows)


def is_broad_role(name: str) -> bool:
    """Returns True if a role has broad permissions."""
    return name in table("plan_risks")["broad_roles"]


FIREWALLS = ("network_rules", "network_acls", "network_rule_set", "network_profile")
"""The firewall blocks of accounts, vaults and registries; `network_profile` is one only in a Batch
account, with blocks of its own."""


def opening_attributes() -> Mapping[str, object]:
    """Returns the attributes that open a service to the internet, with the value that does."""
    found: Mapping[str, object] = table("plan_risks")["public_when"]
    return found
