"""One task of a run: its folders, the contract that its script relies on, and one attempt; and the
nodes on which it runs, which are this machine unless another kind says how they are reached.

Standard library only, as all that a supervisor imports.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections import Counter
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from fairway_agent import container, outputs, processes, proxy, state_files, task_logs
from fairway_agent.fanout import launchers
from fairway_agent.fanout.launchers import free_port
from fairway_agent.resources import ports_of
from fairway_agent.spec import CANCEL, LAST
from fairway_agent.state_files import CANCELLATION, ERROR, IO_ERROR, MACHINE, TIMED_OUT, TaskState
from fairway_agent.task_logs import Pump
from fairway_boot.files import Fault

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import BinaryIO

    from fairway_agent.allocators.hosts import Host
    from fairway_agent.figures.idle import IdleWatch
    from fairway_agent.figures.sampler import Sampling
    from fairway_agent.resources import Share
    from fairway_agent.spec import RunPlan, TaskSpec
    from fairway_agent.state_files import BestTasks


def best_tasks(run: Path, plan: RunPlan, *, decides: bool = False) -> BestTasks:
    """Returns the best tasks of other runs, those whose outputs are inputs of this run, as far as
    they are known; with `decides`, decides them now."""
    if any(each.best for each in plan.chained):
        from fairway_agent import outputs  # few runs have such an input

        return outputs.decide_best(run, plan) if decides else outputs.read_best(run)
    return {}


def variables(run: Path, plan: RunPlan) -> dict[str, str]:
    """The variables of the inputs that another run has kept."""
    base, known = run.parents[1], best_tasks(run, plan, decides=True)
    return {
        f"FAIRWAY_INPUT_{each.name.upper()}": str(base / each.path_for(known))
        for each in plan.chained
    }


def missing_input(run: Path, plan: RunPlan) -> str:
    """Names an input that should come from another run and is missing; "" if all are there."""
    try:
        known = best_tasks(run, plan, decides=True)
    except (Fault, OSError) as error:
        return str(error)
    for each in plan.chained:
        path = each.path_for(known)
        folder = run.parents[1] / path
        for parent in (folder.parents[1], folder.parent):
            # A node that shares the folder believes for a while that what it did not find there
            # before is not there, until it lists it.
            with suppress(OSError):
                list(parent.iterdir())
        if not folder.is_dir():
            _, other, _, task, _, output = (*path.split("/"), *[""] * 5)[:6]
            if not output:
                return f"the input `{each.name}` no longer exists: {folder}"
            return f"task {task} of {other} has kept no file in `{output}`"
    return ""


# Of the last task of its own run alone: one that such a task submits has it not.
_OTHERS = "FAIRWAY_TASKS_DIR"
MACHINE_STOPPED = "its machine was stopped"
_STRAY_GRACE = 2.0  # seconds for what a finished task left running


@dataclass(frozen=True, slots=True)
class Loss:
    """Nodes that an attempt has lost: the cause for which it counts, what a person is told, and the
    addresses of those that could not be reached any more."""

    cause: str
    reason: str
    addresses: Sequence[str] = ()


class Nodes:
    """How a task's nodes are reached, and where its files lie on them. Here they are this machine,
    which the ranks of a task share; other kinds override what differs."""

    # Not FAIRWAY_…, which launchers pass on to other nodes.
    MARK: ClassVar = "_FAIRWAY_MARK"
    # How a launcher reaches them; see `fanout.launchers`.
    WAY: ClassVar = "local"
    # Whether the script is started on its node by this very process.
    IS_HERE: ClassVar = True
    # Whether a lost node counts as a failure of the task where the job has no limit for it.
    LOSSES_ARE_FAILURES: ClassVar = True

    def mark(self, task: Task) -> str:
        """Returns the value of `MARK` in the environment of all its processes; it begins with the
        run's folder."""
        return f"{task.run_folder}#{task.name}"

    def prepare(self, task: Task) -> None:
        """Makes them ready for the next attempt."""

    def command(self, task: Task, script: Path) -> list[str]:
        """The command line that runs the script: in the job's container, if it has one; its setup
        is outside."""
        inside = [] if task.name == "setup" else container.entry(task.run_folder)
        return [*inside, "bash", str(script)]

    def sessions(self, task: Task) -> set[int]:
        """The sessions of processes here that were started from other nodes."""
        return set()

    def signal(self, task: Task, number: signal.Signals) -> None:
        """Sends the task's programs the signal, wherever they run."""
        processes.signal_sessions(task.sessions(), number)

    def sampling(self, task: Task, environment: dict[str, str]) -> Sampling | None:
        """Returns the sampling of the nodes while an attempt runs; None if something else samples
        them."""

    def clean(self, task: Task, code: int) -> None:
        """Ends what an attempt with this exit code has left on the other nodes."""

    def leave(self, task: Task) -> None:
        """Removes what lies there of a task that has ended."""
        shutil.rmtree(task.folder / "scratch", ignore_errors=True)

    def loss(self, task: Task) -> Loss | None:
        """Returns the nodes that the last attempt has lost; None if it has lost none."""

    def setup_failed(self, task: Task) -> bool:
        """True if the attempt ended because the job's setup failed on one of the nodes."""
        return False

    def facts(self, task: Task) -> dict[str, Any]:
        """Returns the fields of the task's state that say where it runs, and for which
        submission."""
        return {}

    def record(self, task: Task, status: TaskState) -> None:
        """Replaces the task's state."""
        if task.states is None:
            task.folder.mkdir(parents=True, exist_ok=True)
            state_files.write(task.folder, status)
        else:
            task.states.write(task.folder / state_files.FILE, status)

    def idle_watch(self, task: Task, watch: IdleWatch) -> IdleWatch:
        """Returns the watch on the task's idle GPUs, adapted to how these nodes are sampled."""
        return watch

    def directories(self, task: Task) -> dict[str, Path]:
        """The directories of the contract, by variable, which are made for each attempt."""
        return {
            "FAIRWAY_SHARED_DIR": task.run_folder / "shared",
            "FAIRWAY_SCRATCH_DIR": task.folder / "scratch",
            "FAIRWAY_CHECKPOINT_DIR": Path(
                task.spec.checkpoint or task.run_folder / "checkpoints" / task.name
            ),
        }

    def session_folder(self, task: Task) -> Path:
        """Where MPI's launchers make a folder of the attempt's own: one that nobody can guess. The
        run's folder may be on the network, and its path too long for a socket."""
        return Path(os.environ.get("TMPDIR") or "/tmp", f"fairway-{os.urandom(8).hex()}")  # noqa: S108 - as above

    def contract(self, task: Task) -> dict[str, str]:
        """The variables that these nodes add to the contract."""
        return {}

    def reach(self, task: Task, path: str) -> dict[str, str]:
        """The variables by which the launcher reaches them."""
        return launchers.contract(self.WAY, path, nodes=len(task.addresses()))

    def log_file(self, task: Task) -> Path:
        """The file from which what the task prints can be read."""
        return task.folder / "log.txt"

    def open_log(self, task: Task) -> BinaryIO:
        """Where what it prints is kept."""
        return self.log_file(task).open("ab")

    def append_log_line(self, task: Task, line: str) -> None:
        """Adds a line of Fairway's own to the log."""
        task_logs.append(self.log_file(task), line)

    def written(self, task: Task) -> Path:
        """The folder in which its outputs are, each in a folder of its own, as it writes them."""
        return task.folder / "work"

    def kept(self, task: Task) -> Path:
        """Where what each task of the run has kept lies, in TASK/outputs."""
        return task.run_folder / "tasks"

    def collect(self, task: Task, *, succeeded: bool) -> None:
        """Keeps the outputs that are to be kept; OSError where that fails."""
        kept = task.folder / "outputs"
        outputs.collect(self.written(task), kept, task.spec.outputs, succeeded=succeeded)


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
    `states` are its supervisor's, where it has one that writes late what finds no room.
    `session_folder` is where MPI's launchers keep what they know of the last attempt.
    `refusal` is why it never starts, where no node has what it wants.
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
    pump: Pump | None = None
    sampling: Sampling | None = None
    kill_at: float | None = None
    timed_out: bool = False
    stopped_for: str = ""
    before: str = task_logs.RETRIED
    states: state_files.States | None = None
    session_folder: Path | None = None
    refusal: str = ""
    idle: IdleWatch | None = None
    limit: str = ""
    lacks: str = ""
    reason: str | None = None

    @property
    def name(self) -> str:
        """The task's number, from 0, or `setup`, or `finally`."""
        return self.spec.name

    @property
    def ranks(self) -> int:
        """How many processes it starts."""
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
        """The session in which its processes are."""
        assert self.process is not None, "a session exists once the task has started"
        return self.process.pid

    def sessions(self) -> set[int]:
        """All sessions in which its processes are here: a daemon has one of its own."""
        mark = f"{self.nodes.MARK}={self.nodes.mark(self)}"
        return {self.session} | processes.sessions_with(mark.__eq__) | self.nodes.sessions(self)

    def addresses(self) -> list[str]:
        """The addresses of its nodes, or this machine as often as it wants nodes."""
        return [host.address for host in self.hosts] or ["localhost"] * self.spec.nodes

    # One attempt.

    def start(self) -> None:
        """Starts the next attempt."""
        self.nodes.prepare(self)
        self.attempt += 1
        environment = self.contract()
        script = self.folder / "launch.sh"
        script.write_text(self.spec.script, encoding="utf-8")
        if self.attempt > 0 and self.before:
            checkpoint = environment["FAIRWAY_CHECKPOINT_DIR"]
            line = task_logs.attempt_line(self.attempt, self.before, checkpoint)
            self.nodes.append_log_line(self, line)
            self.before = ""  # said once, though it may not start yet
        self.kill_at, self.timed_out, self.stopped_for = None, False, ""
        self.process = self._launch(script, environment)
        self.sampling = self.nodes.sampling(self, environment)
        self.started = time.time()
        self.idle = self.idle_watch()
        self.record(replace(self.status("running"), session=self.session))

    def idle_watch(self) -> IdleWatch | None:
        """Returns the watch for idle GPUs; None if the job has no such limit, or nothing is
        sampled."""
        limit, seconds = self.plan.idle_gpu, self.plan.sample_every
        if limit is None or seconds is None or self.name in ("setup", LAST):
            return None
        from fairway_agent.figures import FOLDER, idle, sampler  # most runs need none

        is_here = self.nodes.IS_HERE  # as often as it wants nodes
        names = [sampler.node_name()] if is_here else [host.name for host in self.hosts]
        gpus, folder = self.share.gpus if self.share else None, self.run_folder / FOLDER
        watch = idle.IdleWatch(limit, folder, names, gpus, seconds, time.monotonic())
        return self.nodes.idle_watch(self, watch)

    def _launch(self, script: Path, environment: dict[str, str]) -> subprocess.Popen[bytes]:
        secrets = [os.environ.get(name, "") for name in self.plan.secrets]
        log = self.nodes.open_log(self)
        share = self.share if self.nodes.IS_HERE else None
        try:
            with share.pinned() if share is not None else nullcontext():
                process = subprocess.Popen(
                    self.nodes.command(self, script),
                    cwd=self.plan.directory,
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE if secrets else log,
                    stderr=subprocess.STDOUT,
                    # Its share is its own until all of it has ended, no matter what else is killed.
                    pass_fds=(share.lock,) if share is not None else (),
                    start_new_session=True,
                )
        except BaseException:
            log.close()
            raise
        if process.stdout is None:
            log.close()
        else:
            self.pump = Pump(process.stdout, log, secrets)
        return process

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
        due = [None if self.sampling is None else self.sampling.due(), self.kill_at]
        if self.kill_at is None:
            due += [self._timeout_at(), None if self.idle is None else self.idle.due]
        return min((each for each in due if each is not None), default=None)

    def _timeout_at(self) -> float | None:
        """When it is over its timeout, on the monotonic clock."""
        if self.plan.timeout is None:
            return None
        return time.monotonic() + self.started + self.plan.timeout - time.time()

    def check_timers(self) -> None:
        """Does what is due: ends a task that is over its time, kills one over its grace."""
        if self.sampling is not None:
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
        self._look_for_launcher(code)
        if not code and not self.stopped_for:
            code = self._look_for_outputs()
        self.before = self.failure_reason() or self._ending(code)
        if self.sampling is not None:
            self.sampling.end()
        self.nodes.clean(self, code)
        return code

    def _look_for_launcher(self, code: int) -> None:
        """Says so where it has ended because its launcher's program is not there."""
        self.lacks = ""
        if code != task_logs.NOT_FOUND or not self.plan.needs:
            return
        if program := task_logs.missing_program(self.plan.needs, self.nodes.log_file(self)):
            contained = self.name != "setup" and container.is_wanted(self.run_folder)
            self.lacks = task_logs.on_nodes(program, contained=contained)
            self.nodes.append_log_line(self, f"fairway: {self.lacks}")

    def _look_for_outputs(self) -> int:
        """Says which outputs are empty that it must write; the exit code that it has for that."""
        lacking = [name for name in self._empty_outputs() if self.spec.outputs[name].required]
        if lacking:
            self.lacks = outputs.said_empty(lacking)
            self.nodes.append_log_line(self, f"fairway: {self.lacks}, and `required`")
        return IO_ERROR if lacking else 0

    def _empty_outputs(self) -> tuple[str, ...]:
        return outputs.empty(self.nodes.written(self), self.spec.outputs)

    def _ending(self, code: int) -> str:
        """Describes how an attempt ended if nothing more is known."""
        if self.timed_out and self.plan.timeout is not None:
            return f"the one before was over its timeout of {self.plan.timeout:g} s"
        return f"the one before ended with exit code {code}"

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
        loss = None if self.reason else self.nodes.loss(self)
        known = self.reason or (loss.reason if loss else self.limit or self.lacks)
        return known or (MACHINE_STOPPED if self.stopped_for == MACHINE else None)

    def record_failure(self) -> str:
        """Counts that its last attempt did not end well; the cause."""
        loss = self.nodes.loss(self)
        cause = ERROR if loss is None else loss.cause
        self.failures_by_cause[cause] += 1
        return cause

    def retries_exhausted(self, cause: str) -> bool:
        """True if more of the task's attempts have ended for this cause than the job's `retry`
        allows."""
        limit = self.plan.retry_limits.get(cause)
        return limit is not None and self.failures_by_cause[cause] > limit

    def has_retry(self, cause: str) -> bool:
        """True if the task may begin again after an attempt that ended for this cause and is
        already counted.

        A cause with a limit in `retry` has that limit. Without one, a lost node is free where a
        scheduler takes nodes away, and counts as a failure elsewhere. Failures have `retries`.
        """
        limits = self.plan.retry_limits
        if self.limit:
            return False
        if cause in limits:
            return not self.retries_exhausted(cause)
        if cause != ERROR and not self.nodes.LOSSES_ARE_FAILURES:
            return True
        counted = {ERROR} if not self.nodes.LOSSES_ARE_FAILURES else {*self.failures_by_cause}
        failures = sum(self.failures_by_cause[each] for each in counted - limits.keys())
        return failures <= self.plan.retries

    def _exhausted_limit(self) -> str:
        """By which limit it is not begun again, beside that of failures; "" for none."""
        used = [name for name in self.plan.retry_limits if self.retries_exhausted(name)]
        return (
            f"`retry: {{{used[0]}: {self.plan.retry_limits[used[0]]}}}` is used up" if used else ""
        )

    def finish(self, state: str, code: int) -> str:
        """Records the end and keeps the outputs that are to be kept; the state that it has then:
        a task whose outputs cannot be kept has failed."""
        reason = self.failure_reason()
        if state == "failed":
            reason = "; ".join(each for each in (reason, self._exhausted_limit()) if each) or None
        empty = self._empty_outputs() if state == "succeeded" else ()
        try:
            self.nodes.collect(self, succeeded=state == "succeeded")
        except OSError as error:
            written = self.nodes.written(self)
            reason = f"outputs could not be kept: {error}; they are in {written}"
            if state == "succeeded":
                state, code = "failed", IO_ERROR
        self.nodes.leave(self)
        self.record_end(state, code, reason, empty_outputs=empty or None)
        return state

    def record_end(self, state: str, code: int | None, reason: str | None, **facts: Any) -> None:
        """Records its last state."""
        status = replace(self.status(state), ended=time.time(), exit_code=code, reason=reason)
        self.record(replace(status, timed_out=self.timed_out, **facts))

    def status(self, state: str) -> TaskState:
        """Where it stands, in that state."""
        started, held = self.started or None, round(self.held, 3)
        ends, facts = dict(self.failures_by_cause) or None, self.nodes.facts(self)
        known = TaskState(state, self.attempt, started, held=held, ends=ends, **facts)
        if chosen := best_tasks(self.run_folder, self.plan):
            known = replace(known, best=chosen)
        if self.share is None or state == "queued":
            return known
        return known.with_share(self.share)

    def record(self, status: TaskState) -> None:
        """Replaces the task's state."""
        self.nodes.record(self, status)

    def missing_input(self) -> str:
        """Names an input that should come from another run and is missing; "" if all are there."""
        return missing_input(self.run_folder, self.plan)

    # Its contract.

    def contract(self) -> dict[str, str]:
        """The environment that a launcher relies on; its directories exist when it starts."""
        nodes, width = self.spec.nodes, self.spec.processes_per_node
        directories = self.nodes.directories(self)
        for name in self.spec.outputs:
            directories[f"FAIRWAY_OUTPUT_{name.upper()}"] = self.nodes.written(self) / name
        for directory in (self.folder, *directories.values()):
            directory.mkdir(parents=True, exist_ok=True)
        hosts = self.addresses()
        hostfile = self.folder / "hosts"
        hostfile.write_text("".join(f"{host}\n" for host in hosts), encoding="ascii")
        environment = {
            **{name: value for name, value in os.environ.items() if name != _OTHERS},
            **processes.NESTED,
            **self.plan.environment,
            **self.spec.environment,
            "FAIRWAY_RUN": self.plan.run,
            "FAIRWAY_TASK": self.name,
            "FAIRWAY_ATTEMPT": str(self.attempt),
            "FAIRWAY_GRACE": f"{self.plan.grace:g}",
            "FAIRWAY_NODES": str(nodes),
            "FAIRWAY_PROCESSES_PER_NODE": str(width),
            "FAIRWAY_WORLD_SIZE": str(nodes * width),
            "FAIRWAY_HOSTS": ",".join(hosts),
            "FAIRWAY_HOSTFILE": str(hostfile),
            "FAIRWAY_MAIN_HOST": hosts[0],
            **{name: str(directory) for name, directory in directories.items()},
            **variables(self.run_folder, self.plan),
            **self._others(),
            self.nodes.MARK: self.nodes.mark(self),
            **(self.share.environment() if self.share is not None else {}),
        }
        port = free_port(nodes * width, ports_of(environment))
        environment["FAIRWAY_MAIN_PORT"] = str(port)
        self.session_folder = self.nodes.session_folder(self)
        environment |= launchers.session(self.session_folder, environment)
        environment |= self._past_proxy(hosts)
        environment |= self.nodes.reach(self, environment.get("PATH", os.defpath))
        return environment | self.nodes.contract(self)

    def _others(self) -> dict[str, str]:
        """The variable by which the run's last task sees what the others have kept."""
        if not self.spec.is_last:
            return {}
        laid_out = self.folder / "tasks"
        outputs.lay_out(self.nodes.kept(self), laid_out)
        return {_OTHERS: str(laid_out)}

    def _past_proxy(self, hosts: Sequence[str]) -> dict[str, str]:
        """The variables by which its nodes reach one another past a proxy; what the job itself says
        of that stays."""
        said = {**self.plan.environment, **self.spec.environment}
        machine = {name: value for name, value in os.environ.items() if name not in said}
        return proxy.past(hosts, machine) if self.hosts else {}
