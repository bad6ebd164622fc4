"""What a plan is searched for: attributes and roles whose change is dangerous."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from fairway_core.catalog.tables import table

if TYPE_CHECKING:
    from collections.abc import Mapping


def reimaged_by() -> tuple[str, ...]:
    """The attributes of a scale set after whose change its nodes are made anew."""
    return tuple(_facts()["reimaged_by"])


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
