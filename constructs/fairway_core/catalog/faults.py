"""Faults of GPUs and hosts: those that drivers report, and those that Azure accepts in a report."""

from __future__ import annotations

from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING

from fairway_core.catalog.tables import look_up, table

if TYPE_CHECKING:
    from collections.abc import Mapping


@cache
def fatal_xids() -> Mapping[int, str]:
    """Returns the meanings of the XID numbers that NVIDIA's driver logs for a lost GPU.

    >>> fatal_xids()[79]
    'GPU has fallen off the bus'
    """
    fatal = table("gpu_faults")["xid"]["fatal"]
    return MappingProxyType({int(number): meaning for number, meaning in fatal.items()})


def least_cuda(architecture: str) -> tuple[int, int] | None:
    """Returns the first CUDA version that supports the architecture, or None if it is not NVIDIA's.

    >>> least_cuda("hopper"), least_cuda("cdna3")
    ((11, 8), None)
    """
    version = table("cuda")["least"].get(architecture)
    if version is None:
        return None
    major, minor = map(int, version.split("."))
    return major, minor


def impact_category(name: str) -> str:
    """Returns Azure's name of a category by its short name. Raises UserError if it is unknown.

    >>> impact_category("HpcMissingGpu"), impact_category("Healthy")
    ('Resource.Hpc.Unhealthy.HpcMissingGpu', 'Resource.Hpc.Healthy')
    """
    return look_up(name, _categories(), "impact-category", "fairway nodes report --help")


def impact_categories() -> list[str]:
    """Returns the short names of all categories, for `fairway nodes report`."""
    return list(_categories())


@cache
def terminal_states() -> Mapping[str, str]:
    """Returns Azure's final answers to a report of a node's health, by code."""
    return MappingProxyType(dict(table("guest_health")["final"]))


@cache
def _categories() -> Mapping[str, str]:
    found = table("guest_health")
    return {
        name.removeprefix("Unhealthy."): f"{found['prefix']}{name}" for name in found["categories"]
    }
