"""The nodes that Batch has given a task, and Azure's scheduled events for them."""

from __future__ import annotations

import os
import shutil
import socket
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from fairway_agent import machine, outputs
from fairway_agent.batch.folders import Folders, say
from fairway_agent.batch.notifications import Track, is_tracked, write_exit_report
from fairway_agent.fanout import launchers, sshd_mesh
from fairway_agent.machine import Host
from fairway_agent.sampler import Sampling, sampler
from fairway_agent.state_files import NODE, PREEMPTION
from fairway_agent.task.task import Nodes
from fairway_agent.task_logs import print_line
from fairway_boot.http import Failure
from fairway_boot.imds import Event, Metadata

if TYPE_CHECKING:
    import signal
    from collections.abc import Callable, Sequence
    from typing import BinaryIO

    from fairway_agent.limits import IdleWatch
    from fairway_agent.resources import Devices, ResourceRequest, Share
    from fairway_agent.spec import RunPlan
    from fairway_agent.state_files import ExceededLimit, TaskState
    from fairway_agent.task.task import Task


class BatchNodes(Nodes):
    """A task's nodes in a pool: `config` is ssh's configuration for the others. `notice` is the
    event that Azure has announced for one, set by a thread, and `over` the run's own limit that it
    has exceeded. `recorded` is the task's last state: Batch knows the states of its tasks, but
    other tasks of the run may need more, for which `track` keeps a file."""

    WAY: ClassVar = "sshd"
    LOSSES_ARE_FAILURES: ClassVar = False

    def __init__(self, folders: Folders, plan: RunPlan, config: Path | None = None) -> None:
        self.folders = folders
        self.config = config
        self.notice = ""
        self.over: ExceededLimit | None = None
        self.recorded: TaskState | None = None
        self.track = Track(folders, folders.task, is_tracked(plan))

    def give_notice(self, task: Task, kind: str) -> None:
        """Has the task end soon, because Azure announces this for one of its nodes."""
        say(f"Azure announces: {kind}; the job has {task.plan.grace:g} s to save what it has")
        if task.process is not None:
            task.record(replace(task.status("running"), stopped=True))
        self.notice = kind

    def command(self, task: Task, script: Path) -> list[str]:
        """Returns the command line in the job's container, in which this program runs."""
        return ["bash", str(script)]

    def sessions(self, task: Task) -> set[int]:
        return sshd_mesh.sessions(task.folder)

    def signal(self, task: Task, number: signal.Signals) -> None:
        """Asks the job's own processes on every node to end; they have the job's grace."""
        if task.timed_out and not task.limit:
            say(task.failure_reason() or f"the task is over its {task.plan.timeout or 0:g} s")
        if self.config is not None:
            order = f"fairway-signal {task.plan.signal}"
            sshd_mesh.command_all(self.config, task.addresses()[1:], order)
        super().signal(task, number)

    def facts(self, task: Task) -> dict[str, Any]:
        node = os.environ.get("AZ_BATCH_NODE_ID") or None
        return {"node": node, "submission": task.submission}

    def record(self, task: Task, status: TaskState) -> None:
        """Records the state for clients, which read its end and idle GPUs there. Batch restarts
        what ends with an exit code other than 0: `stopped` says that it must not run again."""
        lost = any(task.retries_exhausted(cause) for cause in (PREEMPTION, NODE))
        is_over = self.over is not None or bool(task.limit)
        if status.is_final and (status.state == "cancelled" or lost or is_over):
            status = replace(status, stopped=True)
        self.recorded = status
        self.track.write(status)
        if status.is_final or (task.idle is not None and status.state == "running"):
            write_exit_report(self.folders, status, self.over)

    def sampling(self, task: Task, environment: dict[str, str]) -> Sampling:
        """Collects all nodes' samples on the main node, in a file that is kept with the logs."""
        each_node = str(self.folders.programs / "fairway-each-node")
        return Sampling(
            task.plan.sample_every,
            lambda seconds: [each_node, *sampler(None, seconds)],
            environment,
            # The sampler is no program of the task, and needs no secrets.
            {*task.plan.secrets, self.MARK},
            self._samples(),
        )

    def _samples(self) -> Path:
        return self.folders.work / "logs" / "figures.txt"

    def idle_watch(self, task: Task, watch: IdleWatch) -> IdleWatch:
        """Uses the samples that all nodes print here."""
        names = [host.name for host in task.hosts]
        return replace(watch, nodes=names, printed=self._samples(), due=time.monotonic())

    def append_log_line(self, task: Task, line: str) -> None:
        """Prints the line, as this program's output is the task's log."""
        print_line(line)

    def begin_attempt(self, task: Task, line: str) -> None:
        """Notes nothing: each attempt has a log of its own here."""
        self.append_log_line(task, line)

    def open_log(self, task: Task) -> BinaryIO:
        """Returns this program's own standard output, which Batch keeps."""
        return os.fdopen(os.dup(1), "wb")

    def log_file(self, task: Task) -> Path:
        return Path(os.environ["AZ_BATCH_TASK_DIR"], "stdout.txt")

    def directories(self, task: Task) -> dict[str, Path]:
        return self.folders.directories(task.spec)

    def session_folder(self, task: Task) -> Path:
        return self.folders.scratch / f"mpi{task.attempt}"

    def contract(self, task: Task) -> dict[str, str]:
        """Adds the paths of staged inputs, and the way to the other nodes."""
        found = {**self.folders.inputs(), "FAIRWAY_MPI_ARGS": "", **launchers.root_variables()}
        return found if self.config is None else {**found, "FAIRWAY_SSH_CONFIG": str(self.config)}

    def written(self, task: Task) -> Path:
        return self.folders.written

    def kept(self, task: Task) -> Path:
        """Returns the folder below the run's name into which Batch has downloaded the other tasks'
        outputs."""
        return self.folders.work / outputs.BROUGHT / task.plan.run

    def collect(self, task: Task, *, succeeded: bool) -> None:
        """Puts outputs and the other nodes' files where Batch uploads them from."""
        folders, work = self.folders, self.folders.work
        if work != folders.base:
            shutil.rmtree(work / "outputs", ignore_errors=True)
            folders.written.mkdir(exist_ok=True)
            shutil.move(folders.written, work / "outputs")
        if self.config is not None:
            for name in ("stdout", "stderr"):
                printed = sshd_mesh.command_all(
                    self.config, task.addresses()[1:], f"fairway-output {name}.txt"
                )
                for rank, text in enumerate(printed.values(), start=1):
                    if text:
                        (work / "logs" / f"{name}.node{rank}.txt").write_bytes(text)
        outputs.drop_excluded(work / "outputs", task.spec.outputs)
        changed = outputs.make_storable(work / "outputs")
        for each in changed[:_MOST_SAID]:
            say(f"the output {each}")
        if len(changed) > _MOST_SAID:
            say(f"and {len(changed) - _MOST_SAID} more outputs like these")
        if "FAIRWAY_SCHEDULE" in os.environ:  # a folder of its own: Batch has one place for all
            kept = work / "kept" / folders.run / folders.task
            kept.mkdir(parents=True, exist_ok=True)
            files = task.spec.outputs
            outputs.collect(work / "outputs", kept / "outputs", files, succeeded=succeeded)
            for log in (work / "logs").glob("*.txt"):
                shutil.copyfile(log, kept / log.name)
            sys.stdout.flush()
            shutil.copyfile(work.parent / "stdout.txt", kept / "stdout.txt")

    def leave(self, task: Task) -> None:
        """Removes its folder on the local disk; Batch removes its own."""
        if self.folders.scratch.parent.parent.name == "fairway":
            shutil.rmtree(self.folders.scratch, ignore_errors=True)


_MOST_SAID = 10  # files that are reported in the log
_PAUSE = 1.0
_TRIES = 5  # without any answer: this machine has no such service


class ScheduledEvents(threading.Thread):
    """Watches for events of this node, and in `file` for those that another node reports."""

    def __init__(self, file: Path, act: Callable[[str], None]) -> None:
        super().__init__(daemon=True)
        self._file = file
        self._act = act
        self._event: Event | None = None
        self._metadata = Metadata()
        self.stopped = threading.Event()

    def run(self) -> None:
        """Polls until there is an event, and acts on it once."""
        failures, name, is_there = 0, None, False
        while not self.stopped.wait(_PAUSE):
            if self._file.exists():
                self._act(self._file.read_text(encoding="ascii"))
                return
            if failures >= _TRIES and not is_there:
                continue
            try:
                name = self._metadata.name() if name is None else name
                self._event = next(iter(self._metadata.endings(name)), None)
                is_there = True
            except Failure:
                failures += 1
                continue
            if self._event is not None:
                self._act(self._event.kind)
                return

    def approve(self) -> None:
        """Approves the event: nothing here has to be waited for any more."""
        if self._event is not None:
            try:
                self._metadata.acknowledge(self._event)
            except Failure as error:
                say(f"the event could not be approved: {error}")


def watch_for_main() -> int:
    """Reports an event of this node, which is not the main one, to the main node."""
    folders = Folders()
    main = batch_nodes()[0].address

    def pass_on(kind: str) -> None:
        config = sshd_mesh.connect(folders.mesh, [main])
        sshd_mesh.command_all(config, [main], f"fairway-event {kind}")

    events = ScheduledEvents(folders.base / f"event.{os.getpid()}", pass_on)
    events.start()
    while events.is_alive():
        time.sleep(_PAUSE)
    return 0


def batch_nodes() -> list[Host]:
    """Returns the task's nodes, the main one first: Batch's list need not begin with it."""
    listed = os.environ.get("AZ_BATCH_HOST_LIST", "")
    nodes = [host for host in listed.split(",") if host]
    if len(nodes) < 2:
        return [Host("localhost", "localhost")]
    main = os.environ["AZ_BATCH_MASTER_NODE"].rpartition(":")[0]
    return [Host(each, each) for each in (main, *(node for node in nodes if node != main))]


def share_of(devices: Devices, wanted: ResourceRequest) -> Share | None:
    """Allocates a task its share of the node; None while an earlier task holds too much. Raises
    NeverFits if the node is too small. All tasks of a pool run as one user, and see the folder."""
    folder = Path(os.environ["AZ_BATCH_NODE_SHARED_DIR"], "fairway-devices")
    return machine.allocate_share(machine.own_folder(folder) / "node", devices, wanted)


def own_address(hosts: Sequence[Host]) -> str:
    """Returns this node's own among the addresses: the one that a socket can be bound to.
    FAIRWAY_NODE_ADDRESS overrides it on a machine with several of them. Raises OSError if there is
    none."""
    addresses = [host.address for host in hosts]
    given = os.environ.get("FAIRWAY_NODE_ADDRESS", "")
    if given in addresses:
        return given
    for address in addresses:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            try:
                probe.bind((address, 0))
            except OSError:
                continue
            return address
    raise OSError(f"none of {', '.join(addresses)} is an address of this node")
