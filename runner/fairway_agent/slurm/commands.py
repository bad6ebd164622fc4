"""Slurm's own commands, and what they say. Standard library only."""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fairway_agent.faults import Fault

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

# Seconds: the commands themselves wait for long where slurmctld is down.
_TIMEOUT = 60.0
_MOST_NAMES = 1000  # of jobs in one command line

# What squeue says of a job that has ended, and has not run to its end by itself.
ENDED = frozenset(
    (
        *("BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL"),
        *("OUT_OF_MEMORY", "PREEMPTED", "REVOKED", "TIMEOUT"),
    )
)
WAITING = frozenset(("PENDING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT"))

_NO_SLURM = "load Slurm's client programs there: apt-get install slurm-client"
NO_ANSWER = "no-slurm"  # the fault where slurmctld is away
DOWN = (
    "is slurmctld up? on the scheduler: scontrol ping, then journalctl -u slurmctld\n"
    "jobs that run go on meanwhile"
)


class Refused(Exception):
    """A command did not do what it was told; the message is its own."""


def run(words: Sequence[str], *, stdin: str = "", timeout: float = _TIMEOUT) -> str:
    """What a command prints; Refused where it fails, Fault where Slurm is not there."""
    try:
        done = subprocess.run(
            words,
            input=stdin,
            env=environment(),
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout,
            check=False,
        )
    except FileNotFoundError:
        message = f"`{words[0]}` is not on the login host's PATH"
        raise Fault("missing-tool", message, _NO_SLURM, 4) from None
    except subprocess.TimeoutExpired:
        raise Fault(NO_ANSWER, "slurmctld does not answer", DOWN) from None
    if done.returncode:
        said = done.stderr.strip() or done.stdout.strip()
        if re.search("Unable to contact slurm controller|Connection refused|Socket timed", said):
            raise Fault(NO_ANSWER, "slurmctld does not answer", DOWN)
        raise Refused(said)
    return done.stdout


# What a job inherits of the shell in which it is submitted: all else is the job file's matter.
_KEPT = re.compile(
    r"PATH|HOME|USER|LOGNAME|SHELL|LANG|LC_.*|TZ|LD_LIBRARY_PATH|MODULE.*|LOADEDMODULES|"
    r"VIRTUAL_ENV|CONDA_.*|(OMPI|PRTE|PMIX)_MCA_.*|OMPI_ALLOW_RUN_AS_ROOT(_CONFIRM)?|I_MPI_.*|"
    r"UCX_.*|NCCL_.*|MPICH_.*|SLURM_CONF|SBATCH_(ACCOUNT|QOS)|FAIRWAY_METADATA_URL"
)


def environment() -> dict[str, str]:
    """The variables that Slurm's commands run with, and so the jobs that they submit."""
    kept = {name: value for name, value in os.environ.items() if _KEPT.fullmatch(name)}
    return {"PATH": "/usr/local/bin:/usr/bin:/bin", **kept}


@dataclass(frozen=True)
class Element:
    """A job, or one element of an array, as squeue sees it.

    `job` is the array's id, `index` the element's; -1 for a job that is no array. `ended` is
    in Slurm's own form, `comment` as it was submitted.
    """

    job: str
    index: int
    state: str
    reason: str
    nodes: str
    ended: str
    comment: str

    @property
    def id(self) -> str:
        """As Slurm's commands take it."""
        return self.job if self.index < 0 else f"{self.job}_{self.index}"


_FIELDS = "%F|%K|%T|%r|%N|%e|%P|%k"
_LAST = _FIELDS.count("|")

# Slurm's reasons for which its nodes' own say more, and how the scheduler's of Fairway begin.
_LACKS_NODES = ("ReqNodeNotAvail", "Nodes required for job are DOWN", "PartitionDown")
_OURS = ("fairway:", "Azure:")


def jobs_named(names: Iterable[str]) -> list[Element]:
    """The jobs of these names, those that ended a short while ago included."""
    found, left = [], sorted(names)
    while left:
        some, left = left[:_MOST_NAMES], left[_MOST_NAMES:]
        listed = run(["squeue", "-h", "-r", "-t", "all", "--name", ",".join(some), "-o", _FIELDS])
        found += [
            line.split("|", _LAST) for line in listed.splitlines() if line.count("|") >= _LAST
        ]
    lacking = any(reason.startswith(_LACKS_NODES) for _, _, _, reason, *_ in found)
    whys = _why_nodes_rest() if lacking else {}
    return [_element(words, whys) for words in found]


def _why_nodes_rest() -> dict[str, str]:
    """Why the scheduler has nodes of a partition rest, by the partition."""
    listed = run(["sinfo", "-h", "-N", "-t", "down,drain", "-o", "%R|%E"])
    rows = (line.partition("|") for line in listed.splitlines())
    return {name: why for name, _, why in rows if why.startswith(_OURS)}


def _element(words: Sequence[str], whys: Mapping[str, str]) -> Element:
    job, index, state, reason, nodes, ended, partition, comment = words
    number = int(index) if index.isdecimal() else -1
    if reason.startswith(_LACKS_NODES):
        reason = whys.get(partition, reason)
    return Element(job, number, state, reason, nodes, ended, comment)
