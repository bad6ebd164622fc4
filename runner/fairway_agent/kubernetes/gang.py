"""The pods of a task on several nodes, and how they find each other: each writes its address into
the task's folder, and has a server of the task's own."""

from __future__ import annotations

import os
import shlex
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fairway_agent import control, processes, records, scratch
from fairway_agent.fanout import sshd_mesh
from fairway_agent.fanout.sshd_mesh import SshMesh
from fairway_agent.kubernetes.settings import MOST_WAITS, patience, pods_of
from fairway_agent.machine import Host
from fairway_agent.records import JsonRecord
from fairway_agent.state_files import TERMINATED
from fairway_boot import files
from fairway_boot.files import AgentError

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable
    from pathlib import Path

    from fairway_agent.control import Control

# Seconds between two checks whether a pod that was told to end may do so.
_FIRST_PAUSE, _PAUSE = 0.1, 1.0


@dataclass(frozen=True)
class Member(JsonRecord, label="a pod"):
    """One pod of a task: its id, its name, its node's name, and its address."""

    uid: str
    pod: str
    node: str
    address: str

    @classmethod
    def here(cls) -> Member:
        """Returns this pod."""
        names = ("_FAIRWAY_POD_UID", "_FAIRWAY_POD", "_FAIRWAY_NODE", "FAIRWAY_NODE_ADDRESS")
        return cls(*(os.environ[name] for name in names))


class Gang:
    """The pods of a task in one submission of its run. The wait for them starts at `began`, lasts
    for `patience`, and starts over each time that nodes are started for them, last at `scaled`,
    though not for ever from `first` on. `met` are those of the attempt that runs."""

    def __init__(self, run: Path, task: str, submission: int, size: int) -> None:
        own, pods = base(), pods_of(run)
        self.run, self.task, self.submission, self.size = run, task, submission, size
        self.folder = run / "tasks" / task / "pods" / str(submission)
        """The folder in which each says where it is."""
        self.mesh = SshMesh(
            name=f"{run.name}/{task}",
            folder=own / "ssh",
            key=run / "fairway_key",
            serve=f"{shlex.quote(str(processes.BUNDLE))}/fairway-node serve",
        )
        self.patience = patience(size, size) if pods is None else pods.patience or 0.0
        self.is_queued = pods is not None and bool(pods.queue)
        self.scaled = 0.0
        self.met: list[Member] = []
        self.begin()

    def begin(self) -> None:
        """Starts the wait for another attempt."""
        self.first = self.began = time.monotonic()

    def join(self, rank: int, code: Path) -> None:
        """Lets the others reach this pod. Raises AgentError if its image lacks the programs for
        that."""
        mine = Member.here()
        try:
            sshd_mesh.open_node(self.mesh, mine.address, base(), code)
        except (OSError, subprocess.CalledProcessError) as error:
            hint = "its image needs openssh-server and openssh-client: see docs/kubernetes.md"
            raise AgentError(
                "no-sshd", f"a pod cannot be reached by the others: {error}", hint
            ) from None
        self.folder.mkdir(parents=True, exist_ok=True)
        files.write_json(self.folder / f"{rank}.json", mine.to_json())

    def members(self) -> list[Member | None]:
        """Returns the members by rank; None for a missing one, or one that was told to end."""
        paths = [self.folder / f"{rank}.json" for rank in range(self.size)]
        found = [records.read(file, Member.from_json) for file in paths]
        return [
            None if member is not None and self._signalled(rank) == member.uid else member
            for rank, member in enumerate(found)
        ]

    def _signalled(self, rank: int) -> str:
        """Returns the id of the last pod in that place that was told to end."""
        try:
            return (self.folder / f"{rank}.signalled").read_text(encoding="ascii")
        except FileNotFoundError:
            return ""

    def is_complete(self) -> bool:
        """Returns True if all pods are there. Raises AgentError if another pod cannot start, or
        after waiting for long enough."""
        found = self.members()
        lacking = sum(member is None for member in found)
        if lacking:
            self._check_blocked(f"{lacking} of its {self.size} pods did not start")
        if lacking and self.is_late():
            is_last = time.monotonic() > self._end
            seconds = self.patience * (MOST_WAITS if is_last else 1)
            message = f"{self.size - lacking} of its {self.size} pods had started after "
            message += f"{seconds / 60:g} min"
            if self.scaled and not is_last:
                message += " without another node"
            why, _ = self._notes().lacking.get(self.task, ("", 0.0))
            hint = "look at the nodes: `fairway nodes list TARGET`; then: `fairway retry RUN`"
            if not self.is_queued:
                hint = (
                    "with a Kueue queue none starts before there is room for all, or nodes are "
                    "being made: see docs/kubernetes.md"
                )
            raise AgentError("no-nodes", f"{message}: {why}" if why else message, hint)
        return not lacking

    def connect_all(self) -> tuple[list[Host], Path] | None:
        """Connects to all pods; returns their nodes, this one first, and ssh's configuration; None
        if one is missing, or is to be replaced. Raises AgentError if another pod cannot start, and
        AgentError or OSError after waiting for long enough."""
        if not self.is_complete():
            return None
        found = [member for member in self.members() if member is not None]
        hosts = [Host(member.node, member.address) for member in found]
        try:
            config = sshd_mesh.connect(self.mesh, [host.address for host in hosts])
        except OSError:
            # A lost pod's record stays until its replacement overwrites it.
            self._check_blocked("a pod that is gone cannot be replaced")
            if self.is_late():
                raise
            return None
        self.met = found
        return hosts, config

    def _notes(self) -> Control:
        return control.read(self.run).of(self.submission)

    def _check_blocked(self, what: str) -> None:
        """Raises AgentError, which says `what` follows, if the controller knows that a pod does not
        come."""
        if why := self._notes().blocked.get(self.task, ""):
            # A later attempt of the task finds out by itself whether this is still so.
            control.note_blocked(self.run, self.submission, self.task, "")
            hint = "once that is repaired: `fairway retry RUN`"
            raise AgentError("no-nodes", f"{what}: {why}", hint) from None

    def is_late(self) -> bool:
        """Returns True after waiting long enough since nodes were last started for the pods."""
        _, since = self._notes().lacking.get(self.task, ("", 0.0))
        if since > self.scaled:
            self.scaled, self.began = since, time.monotonic()
        return time.monotonic() > min(self.began + self.patience, self._end)

    @property
    def _end(self) -> float:
        return self.first + MOST_WAITS * self.patience

    def leave(self, rank: int) -> None:
        """Records that Kubernetes has told this pod to end, as it does when it evicts one."""
        own_uid = Member.here().uid.encode("ascii")
        files.write_bytes(self.folder / f"{rank}.signalled", own_uid)

    def was_signalled(self) -> bool:
        """Returns True if Kubernetes told a pod of the attempt to end, as `leave` records."""
        return any(self._signalled(rank) == each.uid for rank, each in enumerate(self.met))

    def has_changed(self) -> bool:
        """Returns True if a pod of the attempt was replaced by another, or is about to be."""
        known = [member and member.uid for member in self.members()]
        return bool(self.met) and known != [member.uid for member in self.met]


def base() -> Path:
    """Returns this pod's own folder, which has the same path in each."""
    folder = scratch.own_folder(scratch.root() / "pods") / os.environ["_FAIRWAY_POD"]
    folder.mkdir(exist_ok=True, mode=0o700)
    return folder


def serve(
    group: Gang,
    rank: int,
    wakeup: socket.socket,
    is_signalled: Callable[[], bool],
    is_over: Callable[[], bool],
) -> int:
    """Runs a pod that is not the first: waits until Kubernetes tells it to end, and then for as
    long as the first pod has programs here. The first pod learns of that too, and gives them their
    signal and grace, which Kubernetes bounds. `is_over` says that the task has ended on all nodes.
    Returns TERMINATED: only the first pod reports that the task is done, and one that ended with 0
    would never be replaced."""
    while not is_signalled():
        _wait(wakeup, None)
    with suppress(OSError):  # then it counts as lost
        group.leave(rank)
    pause = _FIRST_PAUSE
    while _served() and not is_over():
        _wait(wakeup, time.monotonic() + pause)
        pause = min(_PAUSE, 2 * pause)
    return TERMINATED


def _wait(wakeup: socket.socket, deadline: float | None) -> None:
    """Also reaps what its server leaves behind, as its pod's first process has to."""
    processes.wait(wakeup, deadline)
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _served() -> set[int]:
    """Returns the processes here that other pods of the task have started."""
    own = base()
    return processes.members(sshd_mesh.sessions(own) | sshd_mesh.served_sessions(own))
