"""Services with private endpoints: their DNS zones and the parts of them that are reached."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from fairway_core.catalog.tables import look_up, table


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
