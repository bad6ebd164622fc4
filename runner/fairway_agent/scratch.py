"""The local disk of a node: where tasks keep their folders and staged inputs."""

from __future__ import annotations

import hashlib
import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from fairway_agent import machine, processes
from fairway_agent.resources import CORES, numbers_of, ranges
from fairway_boot.files import AgentError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fairway_agent.machine import Host
    from fairway_agent.spec import Staged

# Variable of every process of an attempt; not FAIRWAY_…, which launchers pass on to other nodes. It
# is not the mark of local tasks either: a run that a task submits to its own node marks its tasks
# anew, and these must still be known by the lease of the node that they use.
LEASE = "_FAIRWAY_LEASE"

FOREIGN_HINT = "remove it, or ask an administrator to"

_SHARE = "share:"
_NVME = Path("/mnt/resource_nvme")
_GRACE = 5.0  # seconds for what another run left on the node


def root() -> Path:
    """Returns this user's folder on the node's local NVMe disks if it has any, else in /var/tmp."""
    base = _NVME if os.access(_NVME, os.W_OK) else Path("/var/tmp")  # noqa: S108 - a folder for each user
    return base / f"fairway-{os.getuid()}"


def own_folder(folder: Path) -> Path:
    """Creates a folder in the `root`, beside which everybody may create folders. Raises AgentError
    if another user made one of the two, or may write to it."""
    try:
        machine.own_folder(folder.parent)
        return machine.own_folder(folder)
    except (PermissionError, FileExistsError) as error:
        message = f"{error.filename} on {os.uname().nodename}: {error.strerror}"
        raise AgentError("no-scratch", message, FOREIGN_HINT, 4) from None


def lease(run: Path, task: str, attempt: int, nodes: Sequence[Host]) -> str:
    """Returns the lease of an attempt: its number and the names of its nodes, as the main host may
    start programs elsewhere, preceded by its share of a node, if it has only a share."""
    share = nodes[0].share if nodes else None
    own = f"#{_SHARE}{ranges(share.numbers)}" if share is not None else ""
    return f"{run}#{task}#{attempt}{own}#{','.join(host.name for host in nodes)}"


def input_folder(shared: Path, entry: Staged) -> Path:
    """Returns the folder of a staged input: the one that the job names, or one per set of blobs."""
    if entry.to is not None:
        return Path(entry.to)
    key = f"{entry.account}\0{entry.container}\0{entry.path}"
    name = hashlib.sha256(key.encode()).hexdigest()[:16]
    return (shared if entry.stage == "shared" else root()) / "inputs" / name


def prepare(environment: Mapping[str, str]) -> None:
    """Creates the attempt's own folder, and ends and removes what others have left behind.

    The caller's run has this node, or its share of it, to itself: any other lease of the same
    devices is a leftover of a run whose supervisor was killed. Slurm's jobs are an exception: see
    `slurm.allocation`.
    """
    if LEASE in environment:
        from fairway_boot.cluster import own_name

        own = f"{LEASE}={environment[LEASE]}"
        name, mine = own_name(), _share_of(own)

        def is_left(variable: str) -> bool:
            if not variable.startswith(f"{LEASE}=") or variable == own:
                return False
            theirs = _share_of(variable)
            # If one of the two had the entire node, the other cannot still be there.
            is_same = mine is None or theirs is None or not mine.isdisjoint(theirs)
            return is_same and name in variable.rpartition("#")[2].split(",")

        processes.end(processes.sessions_where(is_left) - {os.getsid(0)}, _GRACE)
    # Slurm's tasks remove their own folders, and may create one before they have a process.
    keep = CORES in environment and LEASE not in environment
    make(Path(environment["FAIRWAY_SCRATCH_DIR"]), keep=keep)


def make(folder: Path, *, keep: bool = False) -> None:
    """Creates a task's own folder, and removes those next to it that belong to no live process,
    unless it is to `keep` them. Raises AgentError if another user may write there."""
    own_folder(folder.parent)
    found = list(folder.parent.iterdir())
    # Listed after the folders: a task has a process before it creates its folder.
    alive = set[str]()
    for _, variables in () if keep else processes.environments():
        alive.update(each for each in variables if each.startswith("FAIRWAY_SCRATCH_DIR="))
    for other in found:
        if other == folder or not (keep or f"FAIRWAY_SCRATCH_DIR={other}" in alive):
            shutil.rmtree(other, ignore_errors=True)
    folder.mkdir(mode=0o700)


def remove(folder: Path) -> None:
    """Removes a task's own folder, unless another user may write next to it."""
    with suppress(AgentError, OSError):
        own_folder(folder.parent)
        shutil.rmtree(folder, ignore_errors=True)


def _share_of(variable: str) -> set[int] | None:
    """Returns the devices of a lease; None if it is for entire nodes."""
    _, _, share = variable.rpartition("#")[0].rpartition("#")
    if not share.startswith(_SHARE):
        return None
    try:
        return set(numbers_of(share.removeprefix(_SHARE)))
    except ValueError:
        return None
