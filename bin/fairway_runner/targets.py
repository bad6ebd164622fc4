"""The targets that a job can be sent to, by name.

`local` always exists. `fairway.yaml`, in the current folder or the nearest above it, may
say what `local` mounts.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field

from fairway_core.documents import Model, read
from fairway_core.findings import UserError
from fairway_core.spelling import did_you_mean
from fairway_core.target import Target


class LocalTarget(Model):
    """What this machine offers: for each mount that jobs name, its path here."""

    name: Literal["local"]
    mounts: dict[str, str] = Field(default_factory=dict)


class Project(Model):
    """The file `fairway.yaml`; relative paths in it are relative to its folder."""

    targets: tuple[LocalTarget, ...] = ()


def find_target(name: str) -> Target:
    """The target of that name; UserError where there is none."""
    known = all_targets()
    if name not in known:
        mend = did_you_mean(name, known)
        raise UserError.of("unknown-target", f"there is no target `{name}`", mend)
    return known[name]


def all_targets() -> dict[str, Target]:
    """Every target that a job can be sent to from the current folder, by name."""
    return {"local": _local()}


def _local() -> Target:
    here = Path.cwd()
    for folder in (here, *here.parents):
        file = folder / "fairway.yaml"
        if file.is_file():
            mounts: dict[str, str] = {}
            for target in read(file).validate(Project).targets:
                mounts |= {mount: str(folder / path) for mount, path in target.mounts.items()}
            return Target.local().model_copy(update={"mounts": mounts})
    return Target.local()


def processes_per_node(target: Target) -> int:
    """What `processes_per_node: gpus` means on a target: a process a GPU, or on a size without
    GPUs the catalogue's ranks a node."""
    if target.engine == "local" or target.vm_size is None:
        from fairway_runner.engines.local import machine

        return machine.processes_per_node()
    from fairway_core.catalog import vm_size

    size = vm_size(target.vm_size)
    return size.gpu.count if size.gpu else size.cores
