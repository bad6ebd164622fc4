"""A task in pods: its nodes, and the contract there. Standard library only."""

from __future__ import annotations

import os
import threading
import time
from dataclasses import dataclass, replace
from signal import SIGKILL
from typing import TYPE_CHECKING, ClassVar

from fairway_agent import bundle, processes, scratch
from fairway_agent.fanout import launchers
from fairway_agent.fanout.remote_exec import LOST, lost_nodes
from fairway_agent.fanout.sshd import forced_command, server
from fairway_agent.figures.sampling import sampler
from fairway_agent.kubernetes.gang import Gang, base
from fairway_agent.shared.task import ScheduledTask
from fairway_agent.task_state import ERROR, NODE, PREEMPTION

if TYPE_CHECKING:
    import signal
    from pathlib import Path

    from fairway_agent.figures.idle import IdleWatch
    from fairway_agent.task_state import TaskState

_PREPARE, _EACH_NODE = "fairway_agent.prepare", "fairway_agent.fanout.each_node"
_GONE = {NODE: "a node of it was lost", PREEMPTION: "a node of it was taken away"}
_LOOK = 5.0  # seconds between two looks whether a pod was replaced


@dataclass
class PodTask(ScheduledTask):
    """A task that has a pod, or one on each of its nodes: then a `gang`, and `config` is that of
    ssh to the others."""

    WAY: ClassVar = "sshd"
    BEGUN_AGAIN: ClassVar = "its pod was lost, and Kubernetes began it again"

    gang: Gang | None = None
    config: Path | None = None
    look_at: float = 0.0
    is_broken: bool = False
    telling: threading.Thread | None = None
    """What sends the other pods the signal."""

    def start(self) -> None:
        """Starts the next attempt on its nodes."""
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / LOST).unlink(missing_ok=True)
        self.is_broken, self.look_at = False, time.monotonic() + _LOOK
        super().start()

    @property
    def others(self) -> list[str]:
        """The addresses of its nodes but this one."""
        return [host.address for host in self.nodes[1:]]

    def lost(self) -> list[str]:
        """The addresses of its nodes that could not be reached any more."""
        return lost_nodes(self.folder)

    def cause(self) -> str:
        """Whether a pod of it was lost, or taken away."""
        if self.gang is None or not (self.is_broken or self.lost() or self.gang.has_changed()):
            return ERROR
        return PREEMPTION if self.gang.was_told() else NODE

    def why(self) -> str | None:
        """That a pod was lost, where that is why it ended."""
        return (self.reason is None and _GONE.get(self.cause())) or super().why()

    def deadline(self) -> float | None:
        """Also when its pods are to be looked at."""
        due = super().deadline()
        if self.gang is None or self.is_broken:
            return due
        return self.look_at if due is None else min(due, self.look_at)

    def keep_deadline(self) -> None:
        """Also ends an attempt of which a pod was replaced: its launcher may wait for ever."""
        if self.gang is not None and not self.is_broken and time.monotonic() >= self.look_at:
            self.look_at = time.monotonic() + _LOOK
            if self.gang.has_changed():
                self.is_broken = True
                self.stop(self.cause())
        super().keep_deadline()

    def sessions(self) -> set[int]:
        """Also those of what other nodes have started here."""
        return super().sessions() | forced_command.sessions(base())

    def _tell(self, number: signal.Signals) -> None:
        """In all pods at once: one that does not answer is no reason for others to wait."""
        if self.config is not None:
            order = (self.config, self.others, f"fairway-signal {self.plan.signal}")
            self.telling = threading.Thread(target=server.order, args=order, daemon=True)
            self.telling.start()
        super()._tell(number)

    def leave_nodes(self, code: int) -> None:
        """By killing what is left of it in the other pods."""
        if self.telling is not None:
            self.telling.join()
            self.telling = None
        if self.config is not None and code:
            server.order(self.config, self.others, f"fairway-signal {SIGKILL.name[3:]}")
        processes.kill(forced_command.sessions(base()))

    def status(self, state: str) -> TaskState:
        """Also in which pod it runs."""
        return replace(super().status(state), job=os.environ["_FAIRWAY_POD"])

    def sampler_words(self, seconds: float) -> list[str]:
        """On each node."""
        each = bundle.program(_EACH_NODE) if self.config is not None else []
        return [*each, *sampler(self.run_folder, seconds)]

    def environment_outside(self) -> dict[str, str]:
        """With what leads to its other nodes; of a part of one with the name of its samples."""
        found = {**os.environ, **self._way(), "FAIRWAY_HOSTS": ",".join(self._hosts())}
        return found | ({"_FAIRWAY_NODE": self._sampled()} if self.share is not None else {})

    def _sampled(self) -> str:
        """What its part of a node is called where several tasks have samples of the same one, each
        of which sees only GPUs of its own."""
        return f"{self.nodes[0].name}.{self.name}"

    def _idle_watch(self) -> IdleWatch | None:
        """By what it sees of its own GPUs."""
        watch = super()._idle_watch()
        if watch is None or self.share is None:
            return watch
        return replace(watch, nodes=[self._sampled()], gpus=None, due=time.monotonic())

    def _way(self) -> dict[str, str]:
        return {} if self.config is None else {"FAIRWAY_SSH_CONFIG": str(self.config)}

    def _inside(self) -> list[str]:
        """Does nothing: this program is in the job's container."""
        return []

    def _command(self, script: Path) -> list[str]:
        command = super()._command(script)
        if self.is_prepared and self.config is None:
            scratch.make(self.scratch_folder, scratch.Others.KEPT)
            return command
        return [*bundle.program(_PREPARE), str(self.run_folder), "", *command]

    def _contract(self) -> dict[str, str]:
        found = {**super()._contract(), **self._way()}
        if self.share is not None:
            found |= self._of_share(len(self.share.gpus))
        return found | launchers.of_root()

    def _of_share(self, gpus: int) -> dict[str, str]:
        """In its container a task's GPUs are counted anew; and its processors, of which it has the
        time but not the numbers, look like all of the node's."""
        visible = ",".join(map(str, range(gpus)))
        found = dict.fromkeys(("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"), visible)
        cpus = int(os.environ.get("_FAIRWAY_CPUS", "1"))
        threads = str(max(1, cpus // self.spec.processes_per_node))
        return found | {"OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", threads)}
