"""Slurm's own commands: slurmctld's view of nodes, and changes to them."""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fairway_boot.files import NO_ANSWER, AgentError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from fairway_boot.slurm.settings import Settings

# Seconds: the commands themselves wait for a long time if slurmctld is down.
TIMEOUT = 60.0

_NO_SLURM = "load Slurm's client programs there: apt-get install slurm-client"
DOWN = (
    "is slurmctld up? on the scheduler: scontrol ping, then journalctl -u slurmctld\n"
    "jobs that run go on meanwhile"
)


class CommandFailed(Exception):
    """Error of a command that failed; the message is its own."""


def run(words: Sequence[str], timeout: float = TIMEOUT) -> str:
    """Returns a command's output. Raises CommandFailed if it fails, AgentError if Slurm is not
    installed."""
    try:
        done = subprocess.run(
            words,
            input="",
            env=environment(),
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout,
        )
    except FileNotFoundError:
        message = f"`{words[0]}` is not on the login host's PATH"
        raise AgentError("missing-tool", message, _NO_SLURM, 4) from None
    except subprocess.TimeoutExpired:
        raise AgentError(NO_ANSWER, "slurmctld does not answer", DOWN) from None
    if done.returncode:
        said = done.stderr.strip() or done.stdout.strip()
        if re.search("Unable to contact slurm controller|Connection refused|Socket timed", said):
            raise AgentError(NO_ANSWER, "slurmctld does not answer", DOWN)
        raise CommandFailed(said or f"exit code {done.returncode}")
    return done.stdout


# Variables that a job inherits from the submitting shell: the job file sets all others.
_KEPT = re.compile(
    r"PATH|HOME|USER|LOGNAME|SHELL|LANG|LC_.*|TZ|LD_LIBRARY_PATH|MODULE.*|LOADEDMODULES|"
    r"VIRTUAL_ENV|CONDA_.*|(OMPI|PRTE|PMIX)_MCA_.*|OMPI_ALLOW_RUN_AS_ROOT(_CONFIRM)?|I_MPI_.*|"
    r"UCX_.*|NCCL_.*|MPICH_.*|SLURM_CONF|SBATCH_(ACCOUNT|QOS)|FAIRWAY_METADATA_URL"
)


def environment() -> dict[str, str]:
    """Returns the variables for Slurm's commands, and so for the jobs that they submit."""
    kept = {name: value for name, value in os.environ.items() if _KEPT.fullmatch(name)}
    return {"PATH": "/usr/local/bin:/usr/bin:/bin", **kept}


_PART = re.compile(r"(?P<stem>[^\[,]+)(?:\[(?P<numbers>[^\]]*)\])?(?:,|$)")
# Matches `scontrol -o show node`; flags follow the state after plus signs.
_STATE = re.compile(r"NodeName=(?P<name>\S+).*? State=(?P<state>\S+)")
_REASON = re.compile(r" Reason=(?P<text>.*?) \[(?P<by>[^@\]]*)@[^\]]*\]")
HARDWARE = "hardware: "
"""Prefix of the health check's message if the machine is at fault, and not, say, a file system."""
# Reasons written by Fairway and by Slurm's daemons; the latter from its source, 22.05 to 25.11.
# Root is also a person with sudo.
_REASONS = (
    *("fairway:", "Azure:", "Not responding", "ResumeTimeout reached", "Kill task failed"),
    *("Node unexpectedly rebooted", "Prolog error", "Epilog error"),
    *("batch job complete failure", "Duplicate jobid", "NO NETWORK ADDRESS FOUND"),
)
REBOOTED, DRAINED = "rebooted by ", "drained by "
"""Prefixes of the reasons given for people."""


@dataclass(frozen=True)
class Node:
    """A node as slurmctld has it: its state and flags, in capitals, the last reason, and the user
    who gave it."""

    state: frozenset[str]
    reason: str = ""
    by: str = ""

    @property
    def has_bad_hardware(self) -> bool:
        """True if the health check drained it for a fault of its machine."""
        return "DRAIN" in self.state and self.reason.startswith(f"fairway: {HARDWARE}")

    def is_a_persons(self, slurm_user: str) -> bool:
        """Returns True if a person drained it, rather than slurmctld or a program of Fairway's."""
        if self.by == slurm_user != "root":
            return self.reason.startswith(DRAINED)
        others = (REBOOTED, *_REASONS) if self.by == "root" else REBOOTED
        return bool(self.reason) and not self.reason.startswith(others)


def expand(host_list: str) -> list[str]:
    """Returns the names that a host list such as `nd-[0-2,7],spot-1` stands for."""
    names = []
    for part in _PART.finditer(host_list):
        stem, numbers = part["stem"], part["numbers"]
        if numbers is None:
            names.append(stem)
            continue
        for piece in numbers.split(","):
            first, _, last = piece.partition("-")
            width = len(first)
            names += [f"{stem}{n:0{width}}" for n in range(int(first), int(last or first) + 1)]
    return names


def partition_of(node: str) -> str:
    """Returns the partition of a node, whose name it starts with."""
    return node.rpartition("-")[0]


def run_command(settings: Settings, *command: str, timeout: float = TIMEOUT) -> str:
    """Runs a command with the settings' programs. Raises CommandFailed if it fails or never
    answers."""
    program = f"{settings.bin}/{command[0]}" if settings.bin else command[0]
    try:
        return run([program, *command[1:]], timeout)
    except (CommandFailed, AgentError) as error:
        raise CommandFailed(f"{' '.join(command)}: {error}") from None


def update_nodes(settings: Settings, names: Iterable[str], state: str, reason: str = "") -> None:
    """Sets the state of these nodes in slurmctld."""
    listed = ",".join(names)
    if listed:
        why = [f"reason={one_line(reason)}"] if reason else []
        run_command(settings, "scontrol", "update", f"nodename={listed}", f"state={state}", *why)


def nodes(settings: Settings) -> dict[str, Node]:
    """Returns all nodes by name; a state is a set such as {"IDLE", "CLOUD", "POWERED_DOWN"}."""
    text = run_command(settings, "scontrol", "-o", "--all", "show", "node")
    found = {}
    for line in text.splitlines():
        if node := _STATE.search(line):
            why = _REASON.search(line)
            state = frozenset(node["state"].rstrip("*").split("+"))
            found[node["name"]] = Node(state, *(why.groups() if why else ()))
    return found


def one_line(text: str) -> str:
    """Returns the text as Slurm stores a reason: one line, not too long, no control characters."""
    words = " ".join(text.split())
    return "".join(each if each.isprintable() else "?" for each in words)[:200]
