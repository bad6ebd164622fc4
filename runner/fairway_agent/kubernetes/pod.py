"""Program of a pod: runs one task of a run, in all of its attempts, or a node of one; the first pod
of a task on several nodes reaches the others by ssh.

Started as `pod RUN_FOLDER STAGE SUBMISSION PART`; the pod's index in its Job says which task of the
part it is, or which node of the part's only one. SIGTERM means that the pod is to end: it is
cancelled, evicted, or its node is going away.
"""

from __future__ import annotations

import fcntl
import os
import signal
import sys
import threading
import time
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from fairway_agent import control, job_facts, processes, scratch, state_files
from fairway_agent.fanout import launchers, remote_exec, sshd_mesh
from fairway_agent.kubernetes import gang
from fairway_agent.kubernetes.gang import Gang, base
from fairway_agent.kubernetes.manifests import SCRATCH
from fairway_agent.limits import Watch
from fairway_agent.machine import Host
from fairway_agent.resources import Share, device_files, own_cores, ports_beside
from fairway_agent.sampler import Sampling, sampler
from fairway_agent.shared import runs
from fairway_agent.state_files import FINAL_STATES, NODE, PREEMPTION, TERMINATED
from fairway_agent.task.attempts import Attempts
from fairway_agent.task.scheduled import (
    ENDED,
    Scheduled,
    SharedNodes,
    is_prepared,
    read_secrets,
    run_attempts,
    scratch_folder,
    task_in,
)
from fairway_agent.task.task import Loss
from fairway_boot.files import AgentError

if TYPE_CHECKING:
    from fairway_agent.control import Part
    from fairway_agent.limits import IdleWatch
    from fairway_agent.resources import ResourceRequest
    from fairway_agent.state_files import TaskState
    from fairway_agent.task.task import Task


_LOOK = 5.0  # seconds between two checks whether a pod was replaced


class PodNodes(SharedNodes):
    """A pod's node, or with a `gang` those of several, with `config` as ssh's configuration for the
    others. `signalling` sends these the signal, and `is_broken` says that a pod of the attempt is
    gone."""

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
        """Returns the loss if a pod was lost, or taken away; None if the task itself failed."""
        lost, gang = remote_exec.lost_nodes(task.folder), self.gang
        if gang is None or not (self.is_broken or lost or gang.has_changed()):
            return None
        if gang.was_signalled():
            return Loss(PREEMPTION, "a node of it was taken away", lost)
        return Loss(NODE, "a node of it was lost", lost)

    def look(self, task: Task) -> None:
        """Ends an attempt that has lost a pod: its launcher might wait for ever."""
        if self.gang is not None and not self.is_broken and time.monotonic() >= self.look_at:
            self.look_at = time.monotonic() + _LOOK
            if self.gang.has_changed():
                self.is_broken = True
                task.stop(PREEMPTION if self.gang.was_signalled() else NODE)

    def sessions(self, task: Task) -> set[int]:
        return sshd_mesh.sessions(base())

    def signal(self, task: Task, number: signal.Signals) -> None:
        """Signals all pods at once, so that none waits for one that does not answer."""
        if self.config is not None:
            order = (self.config, task.addresses()[1:], f"fairway-signal {task.plan.signal}")
            self.signalling = threading.Thread(
                target=sshd_mesh.command_all, args=order, daemon=True
            )
            self.signalling.start()
        super().signal(task, number)

    def clean(self, task: Task, code: int) -> None:
        if self.signalling is not None:
            self.signalling.join()
            self.signalling = None
        if self.config is not None and code:
            sshd_mesh.command_all(self.config, task.addresses()[1:], "fairway-signal KILL")
        processes.kill(sshd_mesh.sessions(base()))

    def facts(self, task: Task) -> dict[str, Any]:
        return {**super().facts(task), "job": os.environ["_FAIRWAY_POD"]}

    def sampling(self, task: Task, environment: dict[str, str]) -> Sampling:
        """Adds the way to the other nodes, and for a share of a node the name of its samples."""
        plan, words = task.plan, partial(sampler, task.run_folder)
        each = [*processes.program(remote_exec.PROGRAM), "--each"] if self.config else []
        found = {**os.environ, **self._ssh_config(), "FAIRWAY_HOSTS": ",".join(task.addresses())}
        if task.share is not None:
            found["_FAIRWAY_NODE"] = _sampled(task)
        return Sampling(plan.sample_every, lambda s: [*each, *words(s)], found, plan.secrets)

    def idle_watch(self, task: Task, watch: IdleWatch) -> IdleWatch:
        """Uses a pod's own samples if it has a share of its node."""
        if task.share is None:
            return watch
        return replace(watch, nodes=[_sampled(task)], gpus=None, due=time.monotonic())

    def _ssh_config(self) -> dict[str, str]:
        return {} if self.config is None else {"FAIRWAY_SSH_CONFIG": str(self.config)}

    def command(self, task: Task, script: Path) -> list[str]:
        """Returns the command line, after the nodes' preparation if need be; it already runs in the
        job's container."""
        command = ["bash", str(script)]
        if is_prepared(task) and self.config is None:
            scratch.make(scratch_folder(task), keep=True)
            return command
        prepare = processes.program("fairway_agent.prepare")
        return [*prepare, str(task.run_folder), "", *command]

    def contract(self, task: Task) -> dict[str, str]:
        """Adds the share of its node. In its container a task's GPUs are numbered anew, and all of
        the node's processors are visible, although it has only a part of their time."""
        found = {**super().contract(task), **self._ssh_config(), **launchers.root_variables()}
        if task.share is None:
            return found
        visible = ",".join(map(str, range(len(task.share.gpus))))
        found |= dict.fromkeys(("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"), visible)
        cpus = int(os.environ.get("_FAIRWAY_CPUS", "1"))
        threads = str(max(1, cpus // task.spec.processes_per_node))
        return found | {"OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", threads)}


def _sampled(task: Task) -> str:
    """Returns the name of the task's samples: several tasks on a node each see only their own
    GPUs."""
    return f"{task.hosts[0].name}.{task.name}"


# Seconds between two checks whether all pods exist: most start together.
_FIRST_LOOK, _NEXT_LOOK = 0.05, 1.0


@dataclass
class Kubernetes(Scheduled):
    """Backend of the attempts of a task whose first pod this is. `nodes` reaches the other pods,
    and `part` is the part of the submission that the pod belongs to."""

    STOPPED: ClassVar = "its pod was ended by Kubernetes"
    BEFORE: ClassVar = "Kubernetes ended the pod of the one before, and began it again"
    BEGUN_AGAIN: ClassVar = "its pod was lost, and Kubernetes began it again"

    nodes: PodNodes = field(kw_only=True)
    part: Part = field(kw_only=True)

    def prepare(self, task: Task) -> None:
        """Finds out the node, or the share of it, and lets the other pods reach it."""
        here, wanted = gang.Member.here(), self.part.wanted
        host = Host(here.node, here.address)
        task.hosts = [host if wanted is None else with_share(host, wanted, self.part.node_fraction)]
        if self.nodes.gang is not None:
            self.nodes.gang.join(0, Path(task.plan.directory))
        read_secrets(task.run_folder, task.plan)

    def begin(self, task: Task) -> bool:
        """Waits until its other pods are there and can be reached; returns False if it is to end
        before."""
        super().begin(task)
        group, pause = self.nodes.gang, _FIRST_LOOK
        if group is not None:
            group.begin()
        while group is not None and not self.asked:
            if found := group.connect_all():
                task.hosts, self.nodes.config = found
                return True
            processes.wait(self.wakeup, time.monotonic() + pause)
            pause = min(_NEXT_LOOK, 2 * pause)
        return not self.asked

    def look(self, task: Task) -> None:
        """Also checks that its pods are still there."""
        super().look(task)
        self.nodes.look(task)

    def next_timer(self) -> float | None:
        due = super().next_timer()
        if self.nodes.gang is None or self.nodes.is_broken:
            return due
        return self.nodes.look_at if due is None else min(due, self.nodes.look_at)


def main() -> None:
    run, stage = Path(sys.argv[1]), sys.argv[2]
    submission, number = map(int, sys.argv[3:5])
    hold_scratch(Path(SCRATCH))
    (wakeup, _), received = processes.signal_wakeups(signal.SIGCHLD), list[int]()
    # A pod's first process ignores every signal without a handler.
    processes.handle_term(lambda number, _: received.append(number))
    try:
        plan = job_facts.read_shared_plan(run, retry=submission > 0)
        known = control.read(run)
        part = next((each for each in known.parts if each.number == number), None)
        if known.submission != submission or part is None:
            sys.exit("fairway: the run was started again, or removed")
        position = int(os.environ.get("JOB_COMPLETION_INDEX", "0"))
        index = part.indices[0 if part.nodes > 1 else position]
        spec = runs.spec_of(run, stage, index)
        group = Gang(run, spec.name, submission, part.nodes) if part.nodes > 1 else None
        if group is not None and position:
            group.join(position, Path(plan.directory))
    except AgentError as fault:
        sys.exit(fault.said)
    end = partial(end_of, run / "tasks" / spec.name, submission)
    if group is not None and position:
        is_signalled, is_over = lambda: bool(received), lambda: end() is not None
        sys.exit(gang.serve(group, position, wakeup, is_signalled, is_over))
    if (last := end()) is not None:  # Kubernetes did not count the pod in which it ended
        sys.exit(exit_code(last.state, last.exit_code or 0))
    nodes = PodNodes(group)
    task = task_in(run, plan, spec, nodes, submission)
    scheduler = Kubernetes(wakeup, Watch(run, plan, submission), nodes=nodes, part=part)
    signal.signal(signal.SIGTERM, scheduler.ask(ENDED))
    if received:
        scheduler.asked = ENDED
    attempts = Attempts(task, scheduler)
    run_attempts(attempts, scheduler)
    sys.exit(exit_code(attempts.state, attempts.exit_code))


def exit_code(state: str, code: int) -> int:
    """Returns the exit code of a pod whose task is in a state, with a code. TERMINATED means that
    another pod begins with it, so a task that has ended with that code leaves with another."""
    return 1 if code == TERMINATED and state in FINAL_STATES else code


def hold_scratch(folder: Path) -> None:
    """Locks the pod's scratch until this program ends, however it ends. `node_cleanup.sh` removes
    folders that have lost their lock."""
    fcntl.flock(os.open(folder, os.O_RDONLY | os.O_DIRECTORY), fcntl.LOCK_SH)
    (folder / ".fairway").touch()


def with_share(
    host: Host, wanted: ResourceRequest, fraction: float | None, devices: Path = Path("/dev")
) -> Host:
    """Returns the pod's node with the pod's share of it; `fraction` is that of the submission."""
    count = wanted.gpus or 0
    # The node's numbers, if the container sees only its own device files.
    found = device_files(devices) if count else []
    gpus = tuple(found if len(found) == count else range(count))
    # A pod has its own address, and so all ports.
    return replace(host, share=Share(gpus, own_cores(), fraction or 1.0, ports_beside([0], 1)))


def end_of(folder: Path, submission: int) -> TaskState | None:
    """Returns the final state of a task in this submission; None if it has not ended."""
    known = state_files.read_task(folder)
    is_over = known is not None and known.is_final and known.submission == submission
    return known if is_over else None


if __name__ == "__main__":
    main()
