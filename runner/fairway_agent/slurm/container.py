"""The container of a task: by Pyxis, a plugin of Slurm's, by Apptainer, or by what else the node
has for it.

A task of one node runs in it as a whole. On several nodes the launcher's script stays outside,
and what it starts once a node is in it.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from fairway_agent import job_facts
from fairway_agent.container import (
    IMAGE_FILES,
    apptainer,
    find_runtime,
    for_enroot,
    missing,
    require_memory,
)
from fairway_agent.container import entry as any_entry
from fairway_boot.files import Fault
from fairway_boot.slurm import commands

if TYPE_CHECKING:
    from collections.abc import Sequence

# What programs/fairway-each-node adds to srun, and fairway-on-node puts before the command.
STEP_OPTIONS, PREFIX = "step-options", "container"


@dataclass(frozen=True)
class Entry:
    """Way into a container: `step` are options of srun, `prefix` words before the command."""

    step: tuple[str, ...] = ()
    prefix: tuple[str, ...] = ()

    def alone(self, command: Sequence[str]) -> list[str]:
        """The command line of a task of one node."""
        if not self.step:
            return [*self.prefix, *command]
        srun = ("srun", "--overlap", "--nodes=1", "--ntasks=1", "--mpi=none", "--input=none")
        return [*srun, "--quiet", *self.step, *command]

    def write(self, folder: Path) -> None:
        """Leaves it where the programs of a task of several nodes look."""
        for name, words in ((STEP_OPTIONS, self.step), (PREFIX, self.prefix)):
            (folder / name).write_bytes(b"".join(word.encode() + b"\0" for word in words))


def entry_of(run: Path, directory: str, folders: Sequence[str]) -> Entry | None:
    """Way into the container of a run's job on this node; None where the job has none.
    `directory` is where its commands start, `folders` are what they see of the node. Fault where
    this node cannot run it."""
    container = job_facts.of_job(run).container
    if container is None:
        return None
    mounts = [*job_facts.of_target(run).mounts.values(), *folders]
    seen = [path for path in dict.fromkeys(mounts) if Path(path).is_dir()]
    image_files = [path for path in IMAGE_FILES if Path(path).exists()]
    if _has_pyxis():
        require_memory(container)
        bound = ",".join([f"{path}:{path}" for path in seen] + [f"{p}:{p}:ro" for p in image_files])
        words = [f"--container-image={for_enroot(container.image)}", f"--container-mounts={bound}"]
        return Entry(step=(*words, f"--container-workdir={directory}", *container.options))
    program = shutil.which("apptainer") or shutil.which("singularity")
    if program is None:
        if find_runtime() is None:
            here, hint = missing(os.environ.get("SLURMD_NODENAME", "this node"))
            raise Fault("no-containers", f"{here}, nor Slurm's Pyxis", hint, 4)
        return Entry(prefix=tuple(any_entry(run)))
    require_memory(container)
    binds = [*seen, *(f"{path}:{path}:ro" for path in image_files)]
    return Entry(prefix=tuple(apptainer(program, container, binds, directory)))


@cache
def _has_pyxis() -> bool:
    """True if srun supports containers: the plugin adds the option to its help."""
    try:
        return "--container-image" in commands.run(["srun", "--help"])
    except commands.Refused:
        return False
