"""The local disk of a node: where tasks and staged inputs lie on it. Standard library only."""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from fairway_agent import processes
from fairway_agent.allocators.hosts import own_name

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fairway_agent.allocators.hosts import Host
    from fairway_agent.plan import Staged

# Of every process of an attempt; not FAIRWAY_…, which launchers pass on to other nodes.
LEASE = "_FAIRWAY_LEASE"

_NVME = Path("/mnt/resource_nvme")
_GRACE = 5.0  # seconds for what another run has left on the node


def root() -> Path:
    """The node's local NVMe disks where it has any, else its folder for temporary files."""
    base = _NVME if os.access(_NVME, os.W_OK) else Path("/var/tmp")  # noqa: S108 - a folder for each user
    return base / f"fairway-{os.getuid()}"


def lease(run: Path, task: str, attempt: int, nodes: Sequence[Host]) -> str:
    """Which attempt it is, and its nodes' names: the main host may start what runs elsewhere."""
    return f"{run}#{task}#{attempt}#{','.join(host.name for host in nodes)}"


def input_folder(shared: Path, entry: Staged) -> Path:
    """Where a staged input lies: where the job says, or the same folder for the same blobs."""
    if entry.to is not None:
        return Path(entry.to)
    key = f"{entry.account}\0{entry.container}\0{entry.path}"
    name = hashlib.sha256(key.encode()).hexdigest()[:16]
    return (shared if entry.stage == "shared" else root()) / "inputs" / name


def prepare(environment: Mapping[str, str]) -> None:
    """Makes the attempt's own folder, and ends and removes what others have left behind.

    The caller's run has this node for itself: whatever else carries a lease is a leftover of
    a run whose supervisor was killed. In Slurm's jobs nothing does, and Slurm ends what is left.
    """
    if LEASE in environment:
        _end_leftovers(f"{LEASE}={environment[LEASE]}")
    make(Path(environment["FAIRWAY_SCRATCH_DIR"]))


def make(folder: Path) -> None:
    """Makes a task's own folder; what lies beside it is left over, for a task has whole nodes."""
    folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    for other in folder.parent.iterdir():
        shutil.rmtree(other, ignore_errors=True)
    folder.mkdir(mode=0o700)


def _end_leftovers(own: str) -> None:
    name = own_name()

    def is_left(variable: str) -> bool:
        nodes = variable.rpartition("#")[2].split(",")
        return variable.startswith(f"{LEASE}=") and variable != own and name in nodes

    processes.end(processes.sessions_with(is_left) - {os.getsid(0)}, _GRACE)
