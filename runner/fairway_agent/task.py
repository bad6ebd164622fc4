"""One task of a run: its folders, the contract that its script relies on, its attempts.

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
from typing import TYPE_CHECKING, ClassVar

from fairway_agent import (
    container,
    log_marks,
    missing,
    outputs,
    processes,
    proxy,
    state_files,
)
from fairway_agent.fanout import launchers
from fairway_agent.masking import Pump
from fairway_agent.plan import CANCEL
from fairway_agent.ports import free_port
from fairway_agent.share import ports_of
from fairway_agent.task_spec import LAST
from fairway_agent.task_state import CANCELLATION, ERROR, IO_ERROR, MACHINE, TIMED_OUT, TaskState
from fairway_boot.faults import Fault

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import BinaryIO

    from fairway_agent.allocators.hosts import Host
    from fairway_agent.figures.idle import IdleWatch
    from fairway_agent.plan import RunPlan
    from fairway_agent.share import Share
    from fairway_agent.task_spec import TaskSpec
    from fairway_agent.task_state import BestTasks

# Of the last task of its own run alone: one that such a task submits has it not.
_OTHERS = "FAIRWAY_TASKS_DIR"
STOPPED = "its machine was stopped"
_STRAY_GRACE = 2.0  # seconds for what a finished task left running


@dataclass
class Task:
    """A task and where it stands.

    `plan` is the run's, `spec` the task's own line in it; `folder` is where its files lie.
    `attempt` is the last that was begun, and -1 before; `ends` counts those of this supervisor
    that did not end well, by their cause.
    `held` is for how many seconds its attempts that have ended had its nodes.
    `told` is why it was told to end for a reason that is not its own; see `task_state.outcome`.
    `before` is why the attempt before the next one ended.
    `states` are its supervisor's, where it has one that writes late what finds no room.
    `nodes` are its own, its main host first; it has none where its ranks share this machine.
    `session_folder` is where MPI's launchers keep what they know of the last attempt.
    `refusal` is why it never starts, where no node has what it wants.
    `idle` watches whether its GPUs do nothing, where the job limits that, and `limit` is why it was
    ended for it. `lacks` says that its launcher is not on its nodes, or that it has not written an
    output that it must.
    """

    # Not FAIRWAY_…, which launchers pass on to other nodes.
    MARK: ClassVar = "_FAIRWAY_MARK"
    # How its launcher reaches its nodes; see `fanout.launchers`.
    WAY: ClassVar = "local"
    # Whether its script is started on its node by this very process.
    IS_HERE: ClassVar = True

    plan: RunPlan
    spec: TaskSpec
    run_folder: Path
    folder: Path
    attempt: int = -1
    ends: Counter[str] = field(default_factory=Counter)
    started: float = 0.0
    held: float = 0.0
    process: subprocess.Popen[bytes] | None = None
    pump: Pump | None = None
    kill_at: float | None = None
    timed_out: bool = False
    told: str = ""
    before: str = log_marks.RETRIED
    states: state_files.States | None = None
    nodes: list[Host] = field(default_factory=list)
    session_folder: Path | None = None
    refusal: str = ""
    idle: IdleWatch | None = None
    limit: str = ""
    lacks: str = ""

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
        """What it has of its node; None where it has whole nodes, or what it finds."""
        return self.nodes[0].share if self.nodes else None

    @property
    def held_nodes(self) -> float:
        """How many nodes it has, or which part of one."""
        return self.spec.nodes * (self.share.part if self.share is not None else 1.0)

    @property
    def session(self) -> int:
        """The session in which its processes are."""
        assert self.process is not None, "a session exists once the task has started"
        return self.process.pid

    def mark(self) -> str:
        """What all its processes have in their environment: the value of `MARK`, which begins
        with the run's folder."""
        return f"{self.run_folder}#{self.name}"

    def sessions(self) -> set[int]:
        """All sessions in which its processes are: a daemon has one of its own."""
        mark = f"{self.MARK}={self.mark()}"
        return {self.session} | processes.sessions_with(mark.__eq__)

    def start(self) -> None:
        """Starts the next attempt."""
        self.attempt += 1
        environment = self._contract()
        script = self.folder / "launch.sh"
        script.write_text(self.spec.script, encoding="utf-8")
        if self.attempt > 0 and self.before:
            checkpoint = environment["FAIRWAY_CHECKPOINT_DIR"]
            self._say_again(log_marks.attempt_line(self.attempt, self.before, checkpoint))
            self.before = ""  # said once, though it may not start yet
        self.kill_at, self.timed_out, self.told = None, False, ""
        self.process = self._launch(script, environment)
        self.started = time.time()
        self.idle = self._idle_watch()
        self.record(replace(self.status("running"), session=self.session))

    def _idle_watch(self) -> IdleWatch | None:
        """What looks whether its GPUs do nothing; None where nobody wants to know, or can."""
        limit, seconds = self.plan.idle_gpu, self.plan.sample_every
        if limit is None or seconds is None or self.name in ("setup", LAST):
            return None
        from fairway_agent.figures import FOLDER, idle, sampler  # most runs need none

        # Where its ranks share this machine, as often as it wants nodes.
        names = [sampler.node_name()] if self.IS_HERE else [host.name for host in self.nodes]
        gpus, folder = self.share.gpus if self.share else None, self.run_folder / FOLDER
        return idle.IdleWatch(limit, folder, names, gpus, seconds, time.monotonic())

    def _launch(self, script: Path, environment: dict[str, str]) -> subprocess.Popen[bytes]:
        secrets = [os.environ.get(name, "") for name in self.plan.secrets]
        log = self._log()
        share = self.share
        held = (share.lock,) if share is not None and self.IS_HERE else ()
        try:
            with share.pinned() if share is not None and self.IS_HERE else nullcontext():
                process = subprocess.Popen(
                    self._command(script),
                    cwd=self.plan.directory,
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE if secrets else log,
                    stderr=subprocess.STDOUT,
                    # Its share is its own until all of it has ended, no matter what else is killed.
                    pass_fds=held,
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

    def _log(self) -> BinaryIO:
        """Where what it prints is kept."""
        return self._log_file().open("ab")

    def _log_file(self) -> Path:
        """The file that it can be read from."""
        return self.folder / "log.txt"

    def _say_again(self, line: str) -> None:
        """Tells the log's reader that another attempt begins."""
        log_marks.append(self.folder / "log.txt", line)

    def _command(self, script: Path) -> list[str]:
        """The command line that runs the script."""
        return [*self._inside(), "bash", str(script)]

    def _inside(self) -> list[str]:
        """What enters the job's container, if it has one; its setup is outside, as on nodes."""
        return [] if self.name == "setup" else container.entry(self.run_folder)

    def lost(self) -> list[str]:
        """The addresses of its nodes that could not be reached any more."""
        return []

    def setup_failed(self) -> bool:
        """Whether it ended because the job's setup failed on one of its nodes."""
        return False

    def why(self) -> str | None:
        """Why its last attempt ended, where that is known."""
        return self.limit or self.lacks or (STOPPED if self.told == MACHINE else None)

    def resume_count(self) -> None:
        """Counts on from the attempts of an earlier supervisor."""
        before = state_files.read_task(self.folder) or TaskState()
        self.attempt = before.attempts - 1
        self.held = before.held or 0.0

    def cause(self) -> str:
        """Why its last attempt did not end well."""
        return ERROR

    def note_end(self) -> None:
        """Counts that its last attempt did not end well."""
        self.ends[self.cause()] += 1

    def is_used_up(self, cause: str) -> bool:
        """Whether more of its attempts have ended by this than may."""
        limit = self.plan.retry_limits.get(cause)
        return limit is not None and self.ends[cause] > limit

    def has_retry(self) -> bool:
        """Whether it may be begun again after an attempt that did not end well, which is counted:
        what has no limit of its own is a failure."""
        if self.limit:
            return False
        cause, apart = self.cause(), self.plan.retry_limits
        if cause in apart:
            return not self.is_used_up(cause)
        failures = sum(count for name, count in self.ends.items() if name not in apart)
        return failures <= self.plan.retries

    def why_no_more(self) -> str:
        """By which limit it is not begun again, beside that of failures; "" for none."""
        used = [name for name in self.plan.retry_limits if self.is_used_up(name)]
        return (
            f"`retry: {{{used[0]}: {self.plan.retry_limits[used[0]]}}}` is used up" if used else ""
        )

    def stop(self, why: str = "", *, timed_out: bool = False) -> None:
        """Asks the task's program to end, `why` where the reason is not its own; it is killed when
        its grace is over. One that has just ended by itself keeps its end, but a failure that is
        cancelled has no other attempt."""
        code = None if self.process is None else self.process.poll()
        goes_on = code is None and self.kill_at is None
        if goes_on or (code != 0 and why == CANCELLATION):
            self.told = why
        if not goes_on:
            return
        self.timed_out = timed_out
        self.kill_at = time.monotonic() + self.plan.grace
        self._tell(signal.Signals[f"SIG{self.plan.signal}"])

    def _tell(self, number: signal.Signals) -> None:
        """Sends its programs the signal, wherever they run."""
        processes.signal_sessions(self.sessions(), number)

    def deadline(self) -> float | None:
        """When something is to be done about it next, on the monotonic clock."""
        if self.kill_at is not None:
            return self.kill_at
        due = (self._timeout_at(), None if self.idle is None else self.idle.due)
        return min((each for each in due if each is not None), default=None)

    def _timeout_at(self) -> float | None:
        """When it is over its timeout, on the monotonic clock."""
        if self.plan.timeout is None:
            return None
        return time.monotonic() + self.started + self.plan.timeout - time.time()

    def keep_deadline(self) -> None:
        """Does what is due: ends a task that is over its time, kills one over its grace."""
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
        self._say_again(f"fairway: {why}")
        if watch.limit.then == CANCEL:
            self.limit = why
            self.stop(timed_out=True)
        else:
            self.record(replace(self.status("running"), session=self.session, reason=why))

    def ended(self) -> int | None:
        """The exit code if the task's script has ended, with nothing of it left running."""
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
        if not code and not self.told:
            code = self._look_for_outputs()
        self.before = self.why() or self._ending(code)
        return code

    def _look_for_launcher(self, code: int) -> None:
        """Says so where it has ended because its launcher's program is not there."""
        self.lacks = ""
        if code != missing.NOT_FOUND or not self.plan.needs:
            return
        if program := missing.missing_program(self.plan.needs, self._log_file()):
            contained = self.name != "setup" and container.is_wanted(self.run_folder)
            self.lacks = missing.on_nodes(program, contained=contained)
            self._say_again(f"fairway: {self.lacks}")

    def _look_for_outputs(self) -> int:
        """Says which outputs are empty that it must write; the exit code that it has for that."""
        lacking = [name for name in self._empty_outputs() if self.spec.outputs[name].required]
        if lacking:
            self.lacks = outputs.said_empty(lacking)
            self._say_again(f"fairway: {self.lacks}, and `required`")
        return IO_ERROR if lacking else 0

    def _empty_outputs(self) -> tuple[str, ...]:
        return outputs.empty(self._written(), self.spec.outputs)

    def _written(self) -> Path:
        """The folder in which its outputs are, each in a folder of its own, as it writes them."""
        return self.folder / "work"

    def _ending(self, code: int) -> str:
        """What an attempt ended with, where nothing more is known."""
        if self.timed_out and self.plan.timeout is not None:
            return f"the one before was over its timeout of {self.plan.timeout:g} s"
        return f"the one before ended with exit code {code}"

    def finish(self, state: str, code: int) -> str:
        """Records the end and keeps the outputs that are to be kept; the state that it has then:
        a task whose outputs cannot be kept has failed."""
        reason = self.why()
        if state == "failed":
            reason = "; ".join(each for each in (reason, self.why_no_more()) if each) or None
        written = self._written()
        empty = self._empty_outputs() if state == "succeeded" else ()
        try:
            outputs.collect(
                written,
                self.folder / "outputs",
                self.spec.outputs,
                succeeded=state == "succeeded",
            )
        except OSError as error:
            reason = f"outputs could not be kept: {error}; they are in {written}"
            if state == "succeeded":
                state, code = "failed", IO_ERROR
        shutil.rmtree(self.folder / "scratch", ignore_errors=True)
        status = replace(self.status(state), ended=time.time(), exit_code=code, reason=reason)
        self.record(replace(status, timed_out=self.timed_out, empty_outputs=empty or None))
        return state

    def status(self, state: str) -> TaskState:
        """Where it stands, in that state."""
        started, held = self.started or None, round(self.held, 3)
        ends = dict(self.ends) or None
        known = TaskState(state, attempt=self.attempt, started=started, held=held, ends=ends)
        if chosen := self._best():
            known = replace(known, best=chosen)
        if self.share is None or state == "queued":
            return known
        return known.with_share(self.share)

    def record(self, status: TaskState) -> None:
        """Replaces the task's state."""
        if self.states is None:
            self.folder.mkdir(parents=True, exist_ok=True)
            state_files.write(self.folder, status)
        else:
            self.states.write(self.folder / state_files.FILE, status)

    def _hosts(self) -> list[str]:
        """The addresses of its nodes, or this machine as often as it wants nodes."""
        return [host.address for host in self.nodes] or ["localhost"] * self.spec.nodes

    def _checkpoint_directory(self) -> Path:
        return Path(self.spec.checkpoint or self.run_folder / "checkpoints" / self.name)

    def _directories(self) -> dict[str, Path]:
        """The directories of the contract, by variable."""
        found = {
            "FAIRWAY_SHARED_DIR": self.run_folder / "shared",
            "FAIRWAY_SCRATCH_DIR": self.folder / "scratch",
            "FAIRWAY_CHECKPOINT_DIR": self._checkpoint_directory(),
        }
        for name in self.spec.outputs:
            found[f"FAIRWAY_OUTPUT_{name.upper()}"] = self._written() / name
        return found

    def _best(self, *, decides: bool = False) -> BestTasks:
        """Which tasks of other runs are the best ones whose outputs are its inputs, as far as that
        is known, or is to be decided now."""
        if any(each.best for each in self.plan.chained):
            from fairway_agent import best  # few runs have such an input

            folder = self.run_folder
            return best.decide(folder, self.plan) if decides else best.read(folder)
        return {}

    def _chained(self) -> dict[str, str]:
        """The variables of the inputs that another run has kept."""
        base, known = self.run_folder.parents[1], self._best(decides=True)
        return {
            f"FAIRWAY_INPUT_{each.name.upper()}": str(base / each.path_for(known))
            for each in self.plan.chained
        }

    def missing_input(self) -> str:
        """Which input is not there that another run was to keep; "" where all are."""
        try:
            known = self._best(decides=True)
        except (Fault, OSError) as error:
            return str(error)
        for each in self.plan.chained:
            path = each.path_for(known)
            folder = self.run_folder.parents[1] / path
            for parent in (folder.parents[1], folder.parent):
                # A node that shares the folder believes for a while that what it did not find there
                # before is not there, until it lists it.
                with suppress(OSError):
                    list(parent.iterdir())
            if not folder.is_dir():
                _, run, _, task, _, output = (*path.split("/"), *[""] * 5)[:6]
                if not output:
                    return f"the input `{each.name}` no longer exists: {folder}"
                return f"task {task} of {run} has kept no file in `{output}`"
        return ""

    def _others(self) -> dict[str, str]:
        """The variable by which the run's last task sees what the others have kept."""
        if not self.spec.is_last:
            return {}
        laid_out = self.folder / "tasks"
        outputs.lay_out(self._kept(), laid_out)
        return {_OTHERS: str(laid_out)}

    def _kept(self) -> Path:
        """Where what each task of the run has kept lies, in TASK/outputs."""
        return self.run_folder / "tasks"

    def _contract(self) -> dict[str, str]:
        """The environment that a launcher relies on; its directories exist when it starts."""
        nodes, width = self.spec.nodes, self.spec.processes_per_node
        directories = self._directories()
        for directory in (self.folder, *directories.values()):
            directory.mkdir(parents=True, exist_ok=True)
        hosts = self._hosts()
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
            **self._chained(),
            **self._others(),
            self.MARK: self.mark(),
            **(self.share.environment() if self.share is not None else {}),
        }
        port = free_port(nodes * width, ports_of(environment))
        environment["FAIRWAY_MAIN_PORT"] = str(port)
        self.session_folder = self._session_folder()
        environment |= launchers.session(self.session_folder, environment)
        environment |= self._direct(hosts)
        return environment | self._reach(environment.get("PATH", os.defpath))

    def _direct(self, hosts: Sequence[str]) -> dict[str, str]:
        """The variables by which its nodes reach one another past a proxy; what the job itself says
        of that stays."""
        said = {**self.plan.environment, **self.spec.environment}
        machine = {name: value for name, value in os.environ.items() if name not in said}
        return proxy.past(hosts, machine) if self.nodes else {}

    def _session_folder(self) -> Path:
        """Where MPI's launchers make a folder of the attempt's own: one that nobody can guess. The
        run's folder may be on the network, and its path too long for a socket."""
        return Path(os.environ.get("TMPDIR") or "/tmp", f"fairway-{os.urandom(8).hex()}")  # noqa: S108 - as above

    def _reach(self, path: str) -> dict[str, str]:
        """The variables by which its launcher reaches its nodes."""
        return launchers.contract(self.WAY, path, nodes=len(self._hosts()))
