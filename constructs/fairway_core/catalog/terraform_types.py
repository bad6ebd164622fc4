"""Terraform's resource types, and services that have private endpoints."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from fairway_core.catalog.tables import look_up, table


def holds_data(type: str) -> bool:  # noqa: A002
    """Whether deleting a resource of that type deletes data.

    >>> holds_data("azurerm_managed_disk"), holds_data("azurerm_subnet")
    (True, False)
    """
    return type in _types("holds_data")


def is_lost_with(type: str) -> bool:  # noqa: A002
    """Whether something is lost with a resource of that type, its own data or that of others.

    >>> is_lost_with("azurerm_managed_disk"), is_lost_with("azurerm_resource_group")
    (True, True)
    """
    return holds_data(type) or type in _types("lost_with")


def lost_with(type: str) -> str:  # noqa: A002
    """What is lost with such a resource, as the end of a sentence.

    >>> lost_with("azurerm_managed_disk")
    'what it holds'
    """
    words: dict[str, str] = _facts()["with_it"]
    return words.get(type, "what it holds")


def stands_inside_another(type: str) -> bool:  # noqa: A002
    """Whether a delete lock on the resource around it keeps this one too."""
    return type in _types("inside_another")


def takes_tags(type: str) -> bool:  # noqa: A002
    """Whether a resource of that type can carry tags; of the types with bindings."""
    return type.startswith("azurerm_") and type not in _types("untaggable")


@cache
def _types(name: str) -> frozenset[str]:
    return frozenset(_facts()[name])


@cache
def _facts() -> dict[str, Any]:
    facts: dict[str, Any] = table("terraform_types")["terraform_types"]
    return facts


@dataclass(frozen=True)
class PrivateLink:
    """A row of private_links.toml."""

    zone: str
    subresource: str


def private_link(service: str) -> PrivateLink:
    """What a private endpoint to that service needs.

    >>> private_link("blob").zone
    'privatelink.blob.core.windows.net'
    """
    return look_up(service, private_links(), "private-link-service")


@cache
def private_links() -> dict[str, PrivateLink]:
    """All services by name."""
    rows = table("private_links")["private_links"]["service"]
    return {service: PrivateLink(**row) for service, row in rows.items()}


def blob_host(account: str) -> str:
    """The name under which Blob storage of an account answers.

    >>> blob_host("contoso")
    'contoso.blob.core.windows.net'
    """
    return f"{account}.{private_link('blob').zone.removeprefix('privatelink.')}"
