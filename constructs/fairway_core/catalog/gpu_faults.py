"""Faults of GPUs that their driver reports, after which a node takes no jobs."""

from __future__ import annotations

from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING

from fairway_core.catalog.tables import table

if TYPE_CHECKING:
    from collections.abc import Mapping


@cache
def fatal_xids() -> Mapping[int, str]:
    """What each XID number means that NVIDIA's driver logs for a GPU that is lost.

    >>> fatal_xids()[79]
    'GPU has fallen off the bus'
    """
    fatal = table("gpu_faults")["xid"]["fatal"]
    return MappingProxyType({int(number): meaning for number, meaning in fatal.items()})
