"""One task of a run: an attempt of it from its start on, and its state."""

from __future__ import annotations

import shutil
import signal
import time
from collections import Counter
from dataclasses import field, replace
from typing import TYPE_CHECKING

from fairway_agent import control, job_facts, outputs, processes, state_files, task_logs
from fairway_agent.figures.sampler import Sampling
from fairway_agent.quick import dataclass
from fairway_agent.spec import CANCEL
from fairway_agent.state_files import CANCELLATION, IO_ERROR, MACHINE, TIMED_OUT, TaskState
from fairway_agent.task.nodes import Nodes

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path

    from fairway_agent.figures.idle import IdleWatch
    from fairway_agent.machine import Host
    from fairway_agent.resources import Share
    from fairway_agent.spec import RunPlan, TaskSpec

MACHINE_STOPPED = "its machine was stopped"
_STRAY_GRACE = 2.0  # seconds for what a finished task left running


@dataclass
class Task:
    """A task and where it stands.

    `plan` is the run's, `spec` the task's own line in it; `folder` is where its files lie. `nodes`
    is how its nodes are reached, and `hosts` are these, its main host first; it has none where its
    ranks share this machine. `submission` is that of the run, where a scheduler may start the task
    several times in it.
    `attempt` is the last that was begun, and -1 before; `failures_by_cause` counts those of this
    supervisor, or of this submission, that did not end well.
    `held` is for how many seconds its attempts that have ended had its nodes.
    `stopped_for` is why it was told to end for a reason that is not its own; see
    `attempts.after_attempt`. `before` is why the attempt before the next one ended.
    `states` are its supervisor's, which writes late what finds no room.
    `session_folder` is where MPI's launchers keep what they know of the last attempt.
    `idle` watches whether its GPUs do nothing, where the job limits that, and `limit` is why it was
    ended for it. `lacks` says that its launcher is not on its nodes, or that it has not written an
    output that it must. `reason` is why it ended, where what runs it knows that.
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
    held: float = 0.0
    process: subprocess.Popen[bytes] | None = None
    pump: task_logs.Pump | None = None
    sampling: Sampling = field(default_factory=Sampling)
    kill_at: float | None = None
    timed_out: bool = False
    stopped_for: str = ""
    before: str = task_logs.RETRIED
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
        """How many nodes it has, or which part of one."""
        return self.spec.nodes * (self.share.part if self.share is not None else 1.0)

    @property
    def session(self) -> int:
        assert self.process is not None, "a session exists once the task has started"
        return self.process.pid

    def sessions(self) -> set[int]:
        """All sessions in which its processes are here: a daemon has one of its own."""
        mark = f"{self.nodes.MARK}={self.nodes.mark(self)}"
        return {self.session} | processes.sessions_with(mark) | self.nodes.sessions(self)

    def addresses(self) -> list[str]:
        """The addresses of its nodes, or this machine as often as it wants nodes."""
        return [host.address for host in self.hosts] or ["localhost"] * self.spec.nodes

    # One attempt; `launch` starts it.

    def stop(self, why: str = "", *, timed_out: bool = False) -> None:
        """Asks the task's program to end, `why` where the reason is not its own; it is killed when
        its grace is over. One that has just ended by itself keeps its end, but a failure that is
        cancelled has no other attempt."""
        code = None if self.process is None else self.process.poll()
        goes_on = code is None and self.kill_at is None
        if goes_on or (code != 0 and why == CANCELLATION):
            self.stopped_for = why
        if not goes_on:
            return
        self.timed_out = timed_out
        self.kill_at = time.monotonic() + self.plan.grace
        self.nodes.signal(self, signal.Signals[f"SIG{self.plan.signal}"])

    def next_timer(self) -> float | None:
        """When something is to be done about it next, on the monotonic clock."""
        due = [self.sampling.due(), self.kill_at]
        if self.kill_at is None:
            due += [self._timeout_at(), self.idle.due if self.idle else None]
        return min((each for each in due if each is not None), default=None)

    def _timeout_at(self) -> float | None:
        timeout = self.plan.timeout
        return None if timeout is None else time.monotonic() + self.started + timeout - time.time()

    def check_timers(self) -> None:
        """Does what is due: ends a task that is over its time, kills one over its grace."""
        self.sampling.keep()
        now, timeout = time.monotonic(), self._timeout_at()
        if self.kill_at is not None:
            if now >= self.kill_at:
                processes.kill(self.sessions())
        elif timeout is not None and now >= timeout:
            self.stop(timed_out=True)
        elif self.idle is not None and now >= self.idle.due:
            self._look_at_gpus(self.idle, now)

    def _look_at_gpus(self, watch: IdleWatch, now: float) -> None:
        """Ends it, or warns, where its GPUs do nothing; says it, too, when they work again."""
        before, why = watch.is_idle, watch.reason
        if watch.look(now) == before:
            return
        if not watch.is_idle:
            self.record(replace(self.status("running"), session=self.session))
            return
        self.nodes.append_log_line(self, f"fairway: {why}")
        if watch.limit.then == CANCEL:
            self.limit = why
            self.stop(timed_out=True)
        else:
            self.record(replace(self.status("running"), session=self.session, reason=why))

    def ended(self) -> int | None:
        """The exit code if the task's script has ended, with nothing of it left on any node."""
        assert self.process is not None
        code = self.process.poll()
        if code is None:
            return None
        # What a task leaves running would hold its cores long after it is forgotten.
        processes.end_all(self.sessions, _STRAY_GRACE)
        if self.pump is not None:
            self.pump.join()
        if self.session_folder is not None:
            shutil.rmtree(self.session_folder, ignore_errors=True)
        self.held += max(0.0, time.time() - self.started)
        code = TIMED_OUT if self.timed_out else 128 - code if code < 0 else code
        code = self._look_for_lacks(code)
        ending = f"ended with exit code {code}"
        if self.timed_out and self.plan.timeout is not None:
            ending = f"was over its timeout of {self.plan.timeout:g} s"
        self.before = self.failure_reason() or f"the one before {ending}"
        self.sampling.end()
        self.nodes.clean(self, code)
        return code

    def _look_for_lacks(self, code: int) -> int:
        """Says so where its launcher's program is not there, or an output is empty that it must
        write; the exit code that it has then."""
        self.lacks = more = ""
        if code == task_logs.NOT_FOUND and self.plan.needs:
            if program := task_logs.missing_program(self.plan.needs, self.nodes.log_file(self)):
                self.lacks = task_logs.on_nodes(program, contained=self.is_contained)
        elif not code and not self.stopped_for and self.spec.outputs:
            empty = outputs.empty(self.nodes.written(self), self.spec.outputs)
            if lacking := [name for name in empty if self.spec.outputs[name].required]:
                self.lacks, more, code = outputs.said_empty(lacking), ", and `required`", IO_ERROR
        if self.lacks:
            self.nodes.append_log_line(self, f"fairway: {self.lacks}{more}")
        return code

    # Its attempts.

    def resume_count(self, begun_again: str = task_logs.RETRIED) -> None:
        """Counts on from the attempts of an earlier process; `begun_again` is why the last of them
        ended, if this goes on with the same submission."""
        last = state_files.read_task(self.folder) or TaskState()
        self.attempt, self.held = last.attempts - 1, last.held or 0.0
        if self.submission is not None and last.submission == self.submission:
            self.failures_by_cause = Counter(last.ends_with_this)
            self.before = begun_again

    def failure_reason(self) -> str | None:
        """Why its last attempt ended, where that is known."""
        if self.reason:
            return self.reason
        loss, stopped = self.nodes.loss(self), self.stopped_for == MACHINE
        known = loss.reason if loss else self.limit or self.lacks
        return known or (MACHINE_STOPPED if stopped else None)

    def retries_exhausted(self, cause: str) -> bool:
        """True if more of its attempts have ended for this cause than the job's `retry` allows."""
        limit = self.plan.retry_limits.get(cause)
        return limit is not None and self.failures_by_cause[cause] > limit

    def finish(self, state: str, code: int) -> str:
        """Records the end and keeps the outputs that are to be kept; the state that it has then:
        a task whose outputs cannot be kept has failed."""
        reason, written = self.failure_reason(), self.nodes.written(self)
        empty: tuple[str, ...] = ()
        limits = self.plan.retry_limits
        used = [f"{name}: {limits[name]}" for name in limits if self.retries_exhausted(name)]
        if state == "failed" and used:
            reason = f"{reason}; " if reason else ""
            reason += f"`retry: {{{used[0]}}}` is used up"
        elif state == "succeeded" and self.spec.outputs:
            empty = outputs.empty(written, self.spec.outputs)
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
        known = TaskState(state, self.attempt, started, held=held, ends=ends, **facts)
        if any(each.best for each in self.plan.chained):
            known = replace(known, best=control.read(self.run_folder).best or None)
        if self.share is None or state == "queued":
            return known
        return known.with_share(self.share)

    def record(self, status: TaskState) -> None:
        self.nodes.record(self, status)
