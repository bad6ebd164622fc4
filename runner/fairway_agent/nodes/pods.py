"""The pods of a task on Kubernetes: one, whose node it is, or one on each of its nodes, which the
first reaches by ssh."""

from __future__ import annotations

import os
import threading
import time
from dataclasses import replace
from signal import SIGKILL
from typing import TYPE_CHECKING, Any, ClassVar

from fairway_agent import processes, scratch
from fairway_agent.fanout import launchers, sshd_mesh
from fairway_agent.fanout.remote_exec import lost_nodes
from fairway_agent.figures.sampler import sampler
from fairway_agent.kubernetes.gang import Gang, base
from fairway_agent.nodes.shared import SharedNodes, is_prepared, scratch_folder
from fairway_agent.state_files import NODE, PREEMPTION
from fairway_agent.task.task import Loss

if TYPE_CHECKING:
    import signal
    from pathlib import Path

    from fairway_agent.figures.idle import IdleWatch
    from fairway_agent.task.task import Task

_PREPARE, _EACH_NODE = "fairway_agent.prepare", "fairway_agent.fanout.each_node"
_GONE = {NODE: "a node of it was lost", PREEMPTION: "a node of it was taken away"}
_LOOK = 5.0  # seconds between two looks whether a pod was replaced


class PodNodes(SharedNodes):
    """A pod's node; with a `gang` those of several, and `config` is that of ssh to the others.
    `signalling` sends these the signal, and `is_broken` says that a pod of the attempt is gone."""

    WAY: ClassVar = "sshd"

    def __init__(self, gang: Gang | None = None, config: Path | None = None) -> None:
        self.gang = gang
        self.config = config
        self.look_at = 0.0
        self.is_broken = False
        self.signalling: threading.Thread | None = None

    def prepare(self, task: Task) -> None:
        super().prepare(task)
        self.is_broken, self.look_at = False, time.monotonic() + _LOOK

    def loss(self, task: Task) -> Loss | None:
        """Classifies the failure: a pod was lost, or taken away, or the task itself failed."""
        lost, gang = lost_nodes(task.folder), self.gang
        if gang is None or not (self.is_broken or lost or gang.has_changed()):
            return None
        cause = PREEMPTION if gang.was_told() else NODE
        return Loss(cause, _GONE[cause], lost)

    def look(self, task: Task) -> None:
        """Ends an attempt of which a pod was replaced: its launcher may wait for ever."""
        if self.gang is not None and not self.is_broken and time.monotonic() >= self.look_at:
            self.look_at = time.monotonic() + _LOOK
            if self.gang.has_changed():
                self.is_broken = True
                task.stop(PREEMPTION if self.gang.was_told() else NODE)

    def sessions(self, task: Task) -> set[int]:
        return sshd_mesh.sessions(base())

    def signal(self, task: Task, number: signal.Signals) -> None:
        """In all pods at once: one that does not answer is no reason for others to wait."""
        if self.config is not None:
            order = (self.config, _others(task), f"fairway-signal {task.plan.signal}")
            self.signalling = threading.Thread(target=sshd_mesh.order, args=order, daemon=True)
            self.signalling.start()
        super().signal(task, number)

    def clean(self, task: Task, code: int) -> None:
        if self.signalling is not None:
            self.signalling.join()
            self.signalling = None
        if self.config is not None and code:
            sshd_mesh.order(self.config, _others(task), f"fairway-signal {SIGKILL.name[3:]}")
        processes.kill(sshd_mesh.sessions(base()))

    def facts(self, task: Task) -> dict[str, Any]:
        return {**super().facts(task), "job": os.environ["_FAIRWAY_POD"]}

    def sampler_words(self, task: Task, seconds: float) -> list[str]:
        each = processes.program(_EACH_NODE) if self.config is not None else []
        return [*each, *sampler(task.run_folder, seconds)]

    def environment_outside(self, task: Task) -> dict[str, str]:
        """With what leads to its other nodes; of a part of one with the name of its samples."""
        found = {**os.environ, **self._ssh_config(), "FAIRWAY_HOSTS": ",".join(task.addresses())}
        return found | ({"_FAIRWAY_NODE": _sampled(task)} if task.share is not None else {})

    def idle_watch(self, task: Task, watch: IdleWatch) -> IdleWatch:
        """By what a pod with a part of its node sees of its own GPUs."""
        if task.share is None:
            return watch
        return replace(watch, nodes=[_sampled(task)], gpus=None, due=time.monotonic())

    def _ssh_config(self) -> dict[str, str]:
        return {} if self.config is None else {"FAIRWAY_SSH_CONFIG": str(self.config)}

    def command(self, task: Task, script: Path) -> list[str]:
        """In the job's container, where this is; its nodes are prepared before if need be."""
        command = ["bash", str(script)]
        if is_prepared(task) and self.config is None:
            scratch.make(scratch_folder(task), scratch.Others.KEPT)
            return command
        return [*processes.program(_PREPARE), str(task.run_folder), "", *command]

    def contract(self, task: Task) -> dict[str, str]:
        """With a share of its node: in its container a task's GPUs are counted anew; and its
        processors, of which it has the time but not the numbers, look like all of the node's."""
        found = {**super().contract(task), **self._ssh_config(), **launchers.of_root()}
        if task.share is None:
            return found
        visible = ",".join(map(str, range(len(task.share.gpus))))
        found |= dict.fromkeys(("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"), visible)
        cpus = int(os.environ.get("_FAIRWAY_CPUS", "1"))
        threads = str(max(1, cpus // task.spec.processes_per_node))
        return found | {"OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", threads)}


def _others(task: Task) -> list[str]:
    return [host.address for host in task.hosts[1:]]


def _sampled(task: Task) -> str:
    """The name of the task's samples: several tasks on a node each see their own GPUs alone."""
    return f"{task.hosts[0].name}.{task.name}"
