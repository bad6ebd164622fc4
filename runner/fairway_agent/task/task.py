"""One task of a run: how its nodes are reached, an attempt from its start on, and its state."""

from __future__ import annotations

import math
import os
import shutil
import signal
import time
from collections import Counter
from dataclasses import field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, ClassVar

from fairway_agent import control, job_facts, outputs, processes, state_files, task_logs
from fairway_agent.fanout import launchers
from fairway_agent.quick import dataclass
from fairway_agent.resources import Share, ranges
from fairway_agent.sampler import Sampling
from fairway_agent.spec import CANCEL, RunPlan, TaskSpec
from fairway_agent.state_files import CANCELLATION, IO_ERROR, MACHINE, TIMED_OUT, TaskState

if TYPE_CHECKING:
    import subprocess
    import threading
    from collections.abc import Sequence

    from fairway_agent.limits import IdleWatch
    from fairway_agent.machine import Host

MACHINE_STOPPED = "its machine was stopped"


@dataclass(frozen=True, slots=True)
class Loss:
    """Nodes that an attempt has lost: the cause for which it counts, the reason for people, and the
    addresses of the unreachable ones."""

    cause: str
    reason: str
    addresses: Sequence[str] = ()


class Nodes:
    """Nodes of a task: how they are reached, and where its files lie. This class is for this
    machine, which the ranks of a task share; other kinds override what differs."""

    # Not FAIRWAY_…, which launchers pass on to other nodes.
    MARK: ClassVar = "_FAIRWAY_MARK"
    # Way in which a launcher reaches the nodes; see `fanout.launchers`.
    WAY: ClassVar = "local"
    # True if this process itself starts the script on its node.
    IS_HERE: ClassVar = True
    # True if a lost node counts as a failure of the task, unless the job limits lost nodes.
    LOSSES_ARE_FAILURES: ClassVar = True

    def mark(self, task: Task) -> str:
        """Returns the value of `MARK` for its processes, which begins with the run's folder."""
        return f"{task.run_folder}#{task.name}"

    def prepare(self, task: Task) -> None:
        """Prepares the nodes for the next attempt."""

    def command(self, task: Task, script: Path) -> list[str]:
        """Returns the command line of the script: in the job's container, except for the setup."""
        inside: list[str] = []
        if task.is_contained:
            from fairway_agent import container  # most jobs have none

            inside = container.entry(task.run_folder)
        return [*inside, "bash", str(script)]

    def sessions(self, task: Task) -> set[int]:
        """Returns the sessions of processes here that were started from other nodes."""
        return set()

    def signal(self, task: Task, number: signal.Signals) -> None:
        """Sends the signal to the task's programs, wherever they run."""
        processes.signal_sessions(task.sessions(), number)

    def sampling(self, task: Task, environment: dict[str, str]) -> Sampling:
        """Returns the sampling of the nodes during an attempt; none if something else does it."""
        return Sampling()

    def clean(self, task: Task, code: int) -> None:
        """Ends what an attempt with this exit code has left on the other nodes."""

    def leave(self, task: Task) -> None:
        """Removes the files there of a task that has ended."""
        shutil.rmtree(task.folder / "scratch", ignore_errors=True)

    def loss(self, task: Task) -> Loss | None:
        """Returns the nodes that the last attempt has lost; None if it has lost none."""

    def setup_failed(self, task: Task) -> bool:
        """Returns True if the attempt ended because the job's setup failed on one of the nodes."""
        return False

    def facts(self, task: Task) -> dict[str, Any]:
        """Returns the fields of the task's state about where it runs, and for which submission."""
        return {}

    def record(self, task: Task, status: TaskState) -> None:
        task.states.write(task.folder / state_files.FILE, status)

    def idle_watch(self, task: Task, watch: IdleWatch) -> IdleWatch:
        """Returns the watch on the task's idle GPUs, adapted to how these nodes are sampled."""
        return watch

    def directories(self, task: Task) -> dict[str, Path]:
        """Returns the contract's directories by variable; they are created for each attempt."""
        return {
            "FAIRWAY_SHARED_DIR": task.run_folder / "shared",
            "FAIRWAY_SCRATCH_DIR": task.folder / "scratch",
            "FAIRWAY_CHECKPOINT_DIR": Path(
                task.spec.checkpoint or task.run_folder / "checkpoints" / task.name
            ),
        }

    def session_folder(self, task: Task) -> Path:
        """Returns a folder for MPI's launchers in this attempt alone, with an unguessable name. The
        run's folder may be on the network, and its path too long for a socket."""
        return Path(os.environ.get("TMPDIR") or "/tmp", f"fairway-{os.urandom(8).hex()}")  # noqa: S108 - as above

    def contract(self, task: Task) -> dict[str, str]:
        """Returns the variables that these nodes add to the contract."""
        return {}

    def reach(self, task: Task, path: str) -> dict[str, str]:
        """Returns the variables that let the launcher reach them."""
        return launchers.contract(self.WAY, path, nodes=len(task.addresses()))

    def log_file(self, task: Task) -> Path:
        """Returns the file from which the task's output can be read."""
        return task.folder / "log.txt"

    def open_log(self, task: Task) -> BinaryIO:
        """Opens the file that keeps the task's output."""
        return self.log_file(task).open("ab")

    def append_log_line(self, task: Task, line: str) -> None:
        """Appends a line of Fairway's own to the log."""
        task_logs.append(self.log_file(task), line)

    def begin_attempt(self, task: Task, line: str) -> None:
        """Appends the line of an attempt to the log, and notes where it is: programs may print such
        lines too."""
        before = task.begins[: task.attempt - 1]
        start = task_logs.append(self.log_file(task), line)
        task.begins = (*before, *[start] * (task.attempt - len(before)))
        if (last := state_files.read_task(task.folder)) is not None:
            task.record(replace(last, begins=task.begins))

    def written(self, task: Task) -> Path:
        """Returns the folder in which each of the task's outputs has a folder to write into."""
        return task.folder / "work"

    def kept(self, task: Task) -> Path:
        """Returns the folder with the kept outputs of each task of the run, in TASK/outputs."""
        return task.run_folder / "tasks"

    def collect(self, task: Task, *, succeeded: bool) -> None:
        """Keeps the outputs as the job asks. Raises OSError if that fails."""
        if task.spec.outputs:
            kept = task.folder / "outputs"
            outputs.collect(self.written(task), kept, task.spec.outputs, succeeded=succeeded)


@dataclass
class Task:
    """A task and its progress.

    `plan` is the run's, `spec` the task's own line in it; `folder` has its files. `nodes` says how
    its nodes are reached, and `hosts` lists them, its main host first; it has none if its ranks
    share this machine. `submission` is that of the run, if a scheduler may start the task several
    times in it. `attempt` is the last that was started, and -1 before; `failures_by_cause` counts
    the failed attempts of this supervisor, or of this submission. `began` is when the last attempt
    `started`, on the monotonic clock, which nobody sets. `held` is for how many seconds
    its ended attempts had its nodes. `stopped_for` is why it was told to end for a reason that is
    not its own; see `attempts.after_attempt`. `before` is why the attempt before the next one
    ended. `states` belongs to its supervisor, and writes late what does not fit on a full disk.
    `session_folder` is where MPI's launchers keep their files during the last attempt. `idle`
    watches for idle GPUs, if the job limits that, and `limit` is the reason if that ended it.
    `lacks` says that its launcher is not on its nodes, or that it has not written a required
    output. `reason` is why it ended, if its backend knows that.
    """

    plan: RunPlan
    spec: TaskSpec
    run_folder: Path
    folder: Path
    attempt: int = -1
    nodes: Nodes = field(default_factory=Nodes)
    hosts: list[Host] = field(default_factory=list)
    submission: int | None = None
    failures_by_cause: Counter[str] = field(default_factory=Counter)
    started: float = 0.0
    began: float = 0.0
    held: float = 0.0
    process: subprocess.Popen[bytes] | None = None
    pump: threading.Thread | None = None
    sampling: Sampling = field(default_factory=Sampling)
    kill_at: float | None = None
    timed_out: bool = False
    stopped_for: str = ""
    before: str = task_logs.RETRIED
    begins: tuple[int, ...] = ()
    states: state_files.States = field(default_factory=state_files.States)
    session_folder: Path | None = None
    idle: IdleWatch | None = None
    limit: str = ""
    lacks: str = ""
    reason: str | None = None

    @property
    def name(self) -> str:
        """The task's number, from 0, or `setup`, or `finally`."""
        return self.spec.name

    @property
    def is_contained(self) -> bool:
        """True if it runs in the job's container, as all but the setup do."""
        return self.name != "setup" and job_facts.of_job(self.run_folder).container is not None

    @property
    def ranks(self) -> int:
        return self.spec.nodes * self.spec.processes_per_node

    @property
    def share(self) -> Share | None:
        """Share of its node; None if it has entire nodes, or shares this machine without limits."""
        return self.hosts[0].share if self.hosts else None

    @property
    def held_nodes(self) -> float:
        """Number of nodes that the task holds; a fraction for a part of one."""
        return self.spec.nodes * (self.share.node_fraction if self.share is not None else 1.0)

    @property
    def session(self) -> int:
        assert self.process is not None, "a session exists once the task has started"
        return self.process.pid

    def sessions(self) -> set[int]:
        """Returns the sessions of its processes here; a daemon has one of its own."""
        mark = f"{self.nodes.MARK}={self.nodes.mark(self)}"
        return {self.session} | processes.sessions_with(mark) | self.nodes.sessions(self)

    def addresses(self) -> list[str]:
        """Returns the addresses of its nodes, or this machine's as many times as it wants nodes."""
        return [host.address for host in self.hosts] or ["localhost"] * self.spec.nodes

    # --- one attempt, which `launch` starts

    def stop(self, why: str = "", *, timed_out: bool = False) -> None:
        """Asks the task's program to end, `why` if the reason is not its own; it is killed after
        its grace. One that has just ended keeps its end, but no cancelled failure is retried."""
        code = None if self.process is None else self.process.poll()
        is_running = code is None and self.kill_at is None
        if is_running or (code != 0 and why == CANCELLATION):
            self.stopped_for = why
        if not is_running:
            return
        self.timed_out = timed_out
        self.kill_at = time.monotonic() + self.plan.grace
        self.nodes.signal(self, signal.Signals[f"SIG{self.plan.signal}"])

    def next_timer(self) -> float | None:
        """Returns when to check the timers next, on the monotonic clock."""
        due = [self.sampling.due(), self.kill_at]
        if self.kill_at is None:
            due += [self._timeout_at(), self.idle.due if self.idle else None]
        return min((each for each in due if each is not None), default=None)

    def _timeout_at(self) -> float | None:
        timeout = self.plan.timeout
        return None if timeout is None else self.began + timeout

    def check_timers(self) -> None:
        """Does what is due: ends a task after its timeout, kills one after its grace."""
        self.sampling.keep()
        now, timeout = time.monotonic(), self._timeout_at()
        if self.kill_at is not None:
            if now >= self.kill_at:
                self._say_left(processes.kill(self.sessions()))
                self.kill_at = math.inf  # those that are left end as soon as they can
        elif timeout is not None and now >= timeout:
            self.stop(timed_out=True)
        elif self.idle is not None and now >= self.idle.due:
            self._look_at_gpus(self.idle, now)

    def _look_at_gpus(self, watch: IdleWatch, now: float) -> None:
        """Ends the task, or warns, if its GPUs are idle; also records when they are busy again."""
        before, why = watch.is_idle, watch.reason
        if watch.look(now) == before:
            return
        if not watch.is_idle:
            self.record(self.status("running"))
            return
        self.nodes.append_log_line(self, f"fairway: {why}")
        if watch.limit.then == CANCEL:
            self.limit = why
            self.stop(timed_out=True)
        else:
            self.record(replace(self.status("running"), reason=why))

    def ended(self) -> int | None:
        """Returns the exit code once the script has ended and nothing of it runs on any node."""
        assert self.process is not None
        code = self.process.poll()
        if code is None:
            return None
        # Leftover processes would occupy cores long after the task is forgotten.
        self._say_left(processes.end_all(self.sessions))
        if self.pump is not None:
            self.pump.join(task_logs.LAST_OUTPUT)
        if self.session_folder is not None:
            shutil.rmtree(self.session_folder, ignore_errors=True)
        self.held += time.monotonic() - self.began
        code = TIMED_OUT if self.timed_out else 128 - code if code < 0 else code
        self.lacks = more = ""
        if code == task_logs.NOT_FOUND and self.plan.needs:
            if program := task_logs.missing_program(self.plan.needs, self.nodes.log_file(self)):
                self.lacks = task_logs.lacking_on_nodes(program, contained=self.is_contained)
        elif not code and not self.stopped_for and self.spec.outputs:
            empty = outputs.empty_outputs(self.nodes.written(self), self.spec.outputs)
            if lacking := [name for name in empty if self.spec.outputs[name].required]:
                self.lacks, code = outputs.empty_message(lacking), IO_ERROR
                more = ", and `required`"
        if self.lacks:
            self.nodes.append_log_line(self, f"fairway: {self.lacks}{more}")
        ending = f"ended with exit code {code}"
        if self.timed_out and self.plan.timeout is not None:
            ending = f"was over its timeout of {self.plan.timeout:g} s"
        self.before = self.failure_reason() or f"the one before {ending}"
        self.sampling.end()
        self.nodes.clean(self, code)
        return code

    def _say_left(self, pids: set[int]) -> None:
        if pids:
            named = ", ".join(map(str, sorted(pids)))
            line = f"fairway: killed processes have not ended, and may go on: {named}"
            self.nodes.append_log_line(self, line)

    # --- its attempts

    def resume_count(self, begun_again: str = task_logs.RETRIED) -> None:
        """Continues the count of an earlier process's attempts; `begun_again` is why the last of
        them ended, if this process belongs to the same submission."""
        last = state_files.read_task(self.folder) or TaskState()
        self.attempt, self.held = last.attempts - 1, last.held or 0.0
        self.begins = last.begins or ()
        if self.submission is not None and last.submission == self.submission:
            self.failures_by_cause = Counter(last.failures_including_current)
            self.before = begun_again

    def failure_reason(self) -> str | None:
        """Returns why its last attempt ended, if that is known."""
        if self.reason:
            return self.reason
        loss, stopped = self.nodes.loss(self), self.stopped_for == MACHINE
        known = loss.reason if loss else self.limit or self.lacks
        return known or (MACHINE_STOPPED if stopped else None)

    def retries_exhausted(self, cause: str) -> bool:
        """Returns True if more attempts have ended for this cause than the job's `retry` allows."""
        limit = self.plan.retry_limits.get(cause)
        return limit is not None and self.failures_by_cause[cause] > limit

    def finish(self, state: str, code: int) -> str:
        """Records the end, keeps the outputs, and returns the final state, failed if that fails."""
        reason, written = self.failure_reason(), self.nodes.written(self)
        empty: tuple[str, ...] = ()
        limits = self.plan.retry_limits
        used = [f"{name}: {limits[name]}" for name in limits if self.retries_exhausted(name)]
        if state == "failed" and used:
            reason = "; ".join(filter(None, [reason, f"`retry: {{{used[0]}}}` is used up"]))
        elif state == "succeeded" and self.spec.outputs:
            empty = outputs.empty_outputs(written, self.spec.outputs)
        try:
            self.nodes.collect(self, succeeded=state == "succeeded")
        except OSError as error:
            reason = f"outputs could not be kept: {error}; they are in {written}"
            if state == "succeeded":
                state, code = "failed", IO_ERROR
        self.nodes.leave(self)
        status = replace(self.status(state), ended=time.time(), exit_code=code, reason=reason)
        self.record(replace(status, timed_out=self.timed_out, empty_outputs=empty or None))
        return state

    def status(self, state: str) -> TaskState:
        started, held = self.started or None, round(self.held, 3)
        ends, facts = dict(self.failures_by_cause) or None, self.nodes.facts(self)
        known = TaskState(state, self.attempt, started, held=held, failures_by_cause=ends, **facts)
        known = replace(known, begins=self.begins or None)
        if any(each.best for each in self.plan.run_inputs):
            known = replace(known, best=control.read(self.run_folder).best or None)
        if (share := self.share) is None or state == "queued":
            return known
        gpus, cores = ranges(share.gpus), ranges(share.cores)
        return replace(known, gpus=gpus, cores=cores, node_fraction=round(share.node_fraction, 6))

    def record(self, status: TaskState) -> None:
        self.nodes.record(self, status)
