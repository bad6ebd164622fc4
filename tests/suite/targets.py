"""Targets of every engine, whose address is never in use and needs no DNS."""

from collections.abc import Mapping
from typing import Any

from fairway_core.target import Target

_SSH = {"host": "192.0.2.1", "user": "me", "shared": "/data/fairway"}
ACCESS: dict[str, dict[str, Any]] = {
    "ssh": _SSH,
    "slurm": {**_SSH, "partition": "nd"},
    "batch": {"endpoint": "https://b", "pool": "pool", "identity": "/i"},
    "kubernetes": {"image": "train:1", "shared": "/data/fairway", "volumes": {"data": "claim"}},
}
"""The required fields of each engine's section."""


def target_of(engine: str, access: Mapping[str, Any] | None = None, **facts: Any) -> Target:
    """Returns a target of that engine; `access` adds to or replaces fields of its section."""
    usual: dict[str, Any] = {"name": "nd", "nodes": {"min": 0, "max": 4}}
    if engine == "kubernetes":
        usual["mounts"] = {"data": "/data"}
    section = {**ACCESS[engine], **(access or {})}
    return Target.model_validate({**usual, **facts, "engine": engine, engine: section})
