"""The pods of a task on several nodes, and how they find each other: each says in the task's folder
where it is, and has a server of the task's own."""

from __future__ import annotations

import os
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fairway_agent import control, processes, records, scratch
from fairway_agent.fanout import sshd_mesh
from fairway_agent.fanout.sshd_mesh import Meeting
from fairway_agent.kubernetes.settings import MOST_WAITS, patience, pods_of
from fairway_agent.machine import Host
from fairway_agent.records import JsonRecord
from fairway_agent.state_files import TERMINATED
from fairway_boot import files
from fairway_boot.files import Fault

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable
    from pathlib import Path

    from fairway_agent.control import Control

# Seconds between two looks of a pod that is to end whether it may.
_FIRST_PAUSE, _PAUSE = 0.1, 1.0


@dataclass(frozen=True)
class Member(JsonRecord, called="a pod"):
    """One pod of a task: its id, its name, the node's, and its address."""

    uid: str
    pod: str
    node: str
    address: str

    @classmethod
    def here(cls) -> Member:
        """This pod."""
        names = ("_FAIRWAY_POD_UID", "_FAIRWAY_POD", "_FAIRWAY_NODE", "FAIRWAY_NODE_ADDRESS")
        return cls(*(os.environ[name] for name in names))


class Gang:
    """The pods of a task in one submission of its run. They are waited for since `began`, for as
    long as `patience` says, and so again each time that nodes are started for them, last when
    `scaled` says, though not for ever from `first` on. `met` are those of the attempt that runs."""

    def __init__(self, run: Path, task: str, submission: int, size: int) -> None:
        own, pods = base(), pods_of(run)
        self.run, self.task, self.submission, self.size = run, task, submission, size
        self.folder = run / "tasks" / task / "pods" / str(submission)
        """The folder in which each says where it is."""
        self.meeting = Meeting(
            name=f"{run.name}/{task}",
            folder=own / "ssh",
            key=run / "fairway_key",
            serve=f"{processes.BUNDLE}/fairway-node serve",
        )
        self.patience = patience(size, size) if pods is None else pods.patience or 0.0
        self.is_queued = pods is not None and bool(pods.queue)
        self.scaled = 0.0
        self.met: list[Member] = []
        self.begin()

    def begin(self) -> None:
        """Waits anew, for another attempt."""
        self.first = self.began = time.monotonic()

    def join(self, rank: int, code: Path) -> None:
        """Lets the others reach this pod. Fault where its image lacks what that takes."""
        mine = Member.here()
        try:
            sshd_mesh.open_node(self.meeting, mine.address, base(), code)
        except (OSError, subprocess.CalledProcessError) as error:
            hint = "its image needs openssh-server and openssh-client: see docs/kubernetes.md"
            raise Fault(
                "no-sshd", f"a pod cannot be reached by the others: {error}", hint
            ) from None
        self.folder.mkdir(parents=True, exist_ok=True)
        files.write_json(self.folder / f"{rank}.json", mine.to_json())

    def members(self) -> list[Member | None]:
        """The members by rank; None for one that is not there, or that was asked to end."""
        paths = [self.folder / f"{rank}.json" for rank in range(self.size)]
        found = [records.read(file, Member.from_json) for file in paths]
        return [
            None if member is not None and self._told(rank) == member.uid else member
            for rank, member in enumerate(found)
        ]

    def _told(self, rank: int) -> str:
        """The id of the last pod in that place that was told to end."""
        try:
            return (self.folder / f"{rank}.told").read_text(encoding="ascii")
        except FileNotFoundError:
            return ""

    def is_whole(self) -> bool:
        """True if all pods are there; raises Fault once they were waited for long enough."""
        found = self.members()
        lacking = sum(member is None for member in found)
        why = self._blocked() if lacking else ""
        if why:
            raise self._hopeless(f"{lacking} of its {self.size} pods did not start: {why}")
        if lacking and self.is_late():
            is_last = time.monotonic() > self._end
            seconds = self.patience * (MOST_WAITS if is_last else 1)
            message = f"{self.size - lacking} of its {self.size} pods had started after "
            message += f"{seconds / 60:g} min"
            if self.scaled and not is_last:
                message += " without another node"
            why, _ = self._seen().lacking.get(self.task, ("", 0.0))
            hint = "look at the nodes: `fairway nodes list TARGET`; then: `fairway retry RUN`"
            if not self.is_queued:
                hint = (
                    "with a Kueue queue none starts before there is room for all, or nodes are "
                    "being made: see docs/kubernetes.md"
                )
            raise Fault("no-nodes", f"{message}: {why}" if why else message, hint)
        return not lacking

    def meet(self) -> tuple[list[Host], Path]:
        """All nodes, this one first, and ssh's configuration; OSError if one is not reached."""
        found = [member for member in self.members() if member is not None]
        hosts = [Host(member.node, member.address) for member in found]
        config = sshd_mesh.connect(self.meeting, [host.address for host in hosts])
        self.met = found
        return hosts, config

    def gather(self) -> tuple[list[Host], Path] | None:
        """Connects to all pods, as `meet` does; None where one is missing, or is to be replaced.
        Fault or OSError once that was waited for long enough."""
        if not self.is_whole():
            return None
        try:
            return self.meet()
        except OSError:
            # What it has said of itself is there until the one in its place says another.
            if why := self._blocked():
                raise self._hopeless(f"a pod that is gone cannot be replaced: {why}") from None
            if self.is_late():
                raise
            return None

    def _blocked(self) -> str:
        """Why another pod does not come, by the run's controller; "" where nothing is known."""
        return self._seen().blocked.get(self.task, "")

    def _seen(self) -> Control:
        """Reads the notes of the run's controller."""
        return control.read(self.run).of(self.submission)

    def _hopeless(self, message: str) -> Fault:
        # Who goes on with the task finds out by itself whether it is still so.
        control.note_blocked(self.run, self.submission, self.task, "")
        return Fault("no-nodes", message, "once that is repaired: `fairway retry RUN`")

    def is_late(self) -> bool:
        """True if the pods were waited for long enough, since nodes were last started for them."""
        _, since = self._seen().lacking.get(self.task, ("", 0.0))
        if since > self.scaled:
            self.scaled, self.began = since, time.monotonic()
        return time.monotonic() > min(self.began + self.patience, self._end)

    @property
    def _end(self) -> float:
        return self.first + MOST_WAITS * self.patience

    def leave(self, rank: int) -> None:
        """Says that Kubernetes has told this pod to end, as it does with one that it evicts."""
        told = Member.here().uid.encode("ascii")
        files.write_bytes(self.folder / f"{rank}.told", told)

    def was_told(self) -> bool:
        """True if Kubernetes told a pod of the attempt to end, which is then noted."""
        return any(self._told(rank) == each.uid for rank, each in enumerate(self.met))

    def has_changed(self) -> bool:
        """True if a pod of the attempt was replaced by another, or is about to be."""
        known = [member and member.uid for member in self.members()]
        return bool(self.met) and known != [member.uid for member in self.met]


def base() -> Path:
    """This pod's own folder, of the same path in each."""
    folder = scratch.root() / "pods" / os.environ["_FAIRWAY_POD"]
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return folder


def serve(
    group: Gang,
    rank: int,
    wakeup: socket.socket,
    is_told: Callable[[], bool],
    is_over: Callable[[], bool],
) -> int:
    """In the pods that are not the first: until Kubernetes tells this one to end, and then for as
    long as the first pod has programs here. That has heard of it too, and gives them their signal
    and grace, which Kubernetes bounds. `is_over` says that the whole task has ended. Only the first
    pod says that the task is done: one that ended with 0 would never be replaced."""
    while not is_told():
        _wait(wakeup, None)
    with suppress(OSError):  # then it counts as one that was lost
        group.leave(rank)
    pause = _FIRST_PAUSE
    while _served() and not is_over():
        _wait(wakeup, time.monotonic() + pause)
        pause = min(_PAUSE, 2 * pause)
    return TERMINATED


def _wait(wakeup: socket.socket, deadline: float | None) -> None:
    """Also collects what its server leaves behind, which is its pod's first process to do."""
    processes.wait(wakeup, deadline)
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _served() -> set[int]:
    """The processes here that other pods of the task have started."""
    own = base()
    return processes.members(sshd_mesh.sessions(own) | sshd_mesh.served(own))
