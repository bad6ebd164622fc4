"""Targets of every engine, which lead nowhere: to an address that nobody has, which is looked up
nowhere."""

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
"""Facts that the section of each engine must have."""


def target_of(engine: str, access: Mapping[str, Any] | None = None, **facts: Any) -> Target:
    """A target of that engine; `access` is what its section has beside the usual, or else."""
    usual: dict[str, Any] = {"name": "nd", "nodes": {"min": 0, "max": 4}}
    if engine == "kubernetes":
        usual["mounts"] = {"data": "/data"}
    section = {**ACCESS[engine], **(access or {})}
    return Target.model_validate({**usual, **facts, "engine": engine, engine: section})
