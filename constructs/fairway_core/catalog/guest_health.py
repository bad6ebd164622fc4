"""What Azure's Guest Health Reporting takes as the fault of a host, and what it answers at last."""

from __future__ import annotations

from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING

from fairway_core.catalog.tables import look_up, table

if TYPE_CHECKING:
    from collections.abc import Mapping


def impact_category(name: str) -> str:
    """The category in Azure's words for a short name; UserError where there is none.

    >>> impact_category("HpcMissingGpu"), impact_category("Healthy")
    ('Resource.Hpc.Unhealthy.HpcMissingGpu', 'Resource.Hpc.Healthy')
    """
    return look_up(name, _categories(), "impact-category", "fairway nodes report --help")


def impact_categories() -> list[str]:
    """Their short names."""
    return list(_categories())


@cache
def final_answers() -> Mapping[str, str]:
    """What Azure answers at last, by its code."""
    return MappingProxyType(dict(table("guest_health")["final"]))


@cache
def _categories() -> Mapping[str, str]:
    found = table("guest_health")
    return {
        name.removeprefix("Unhealthy."): f"{found['prefix']}{name}" for name in found["categories"]
    }
