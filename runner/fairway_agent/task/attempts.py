"""The attempts of one task: each is started with the contract that its script relies on, watched
and ended, and then another may follow. Everything that runs tasks uses this module: supervisors,
Slurm jobs, pods, and Batch tasks."""

from __future__ import annotations

import os
import subprocess
import time
from contextlib import nullcontext, suppress
from dataclasses import field, replace
from typing import TYPE_CHECKING, ClassVar

from fairway_agent import outputs, processes, state_files, task_logs
from fairway_agent.fanout import launchers
from fairway_agent.quick import dataclass
from fairway_agent.resources import ports_of
from fairway_agent.spec import LAST
from fairway_agent.state_files import CANCELLATION, CANCELLED, ERROR, IO_ERROR, MACHINE, TERMINATED
from fairway_boot.files import AgentError

if TYPE_CHECKING:
    from pathlib import Path

    from fairway_agent.limits import IdleWatch
    from fairway_agent.task.task import Task

# Only for the last task of the run itself: a run that it submits must not inherit this.
_OTHERS = "FAIRWAY_TASKS_DIR"


def launch(task: Task) -> None:
    """Starts the task's next attempt."""
    task.nodes.prepare(task)
    task.attempt += 1
    environment = contract(task)
    script = task.folder / "launch.sh"
    script.write_text(task.spec.script, encoding="utf-8")
    if task.attempt > 0 and task.before:
        checkpoint = environment["FAIRWAY_CHECKPOINT_DIR"]
        line = task_logs.attempt_line(task.attempt, task.before, checkpoint)
        task.nodes.begin_attempt(task, line)
        task.before = ""  # printed once, even if the attempt fails to start
    task.kill_at, task.timed_out, task.stopped_for = None, False, ""
    task.process = program(task, script, environment)
    task.sampling = task.nodes.sampling(task, environment)
    task.started, task.began = time.time(), time.monotonic()
    task.idle = idle_watch(task)
    task.record(task.status("running"))


def program(task: Task, script: Path, environment: dict[str, str]) -> subprocess.Popen[bytes]:
    """Starts the script, with its output in the task's log."""
    secrets = [os.environ.get(name, "") for name in task.plan.secrets]
    log = task.nodes.open_log(task)
    share = task.share if task.nodes.IS_HERE else None
    try:
        with share.pinned() if share is not None else nullcontext():
            process = subprocess.Popen(
                task.nodes.command(task, script),
                cwd=task.plan.directory,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE if secrets else log,
                stderr=subprocess.STDOUT,
                # The share stays locked until all of its processes have ended.
                pass_fds=(share.lock,) if share is not None else (),
                start_new_session=True,
            )
    except BaseException:
        log.close()
        raise
    if process.stdout is None:
        log.close()
    else:
        task.pump = task_logs.pump(process.stdout, log, secrets)
    return process


def idle_watch(task: Task) -> IdleWatch | None:
    """Returns the watch for idle GPUs; None if the job has no such limit, or nothing is sampled."""
    limit, seconds = task.plan.idle_gpu, task.plan.sample_every
    if limit is None or seconds is None or task.name in ("setup", LAST):
        return None
    from fairway_agent import limits, sampler  # rarely needed
    from fairway_agent.spec import FIGURES

    is_here = task.nodes.IS_HERE  # this host stands for every node
    names = [sampler.node_name()] if is_here else [host.name for host in task.hosts]
    gpus, folder = task.share.gpus if task.share else None, task.run_folder / FIGURES
    watch = limits.IdleWatch(limit, folder, names, gpus, seconds, time.monotonic())
    return task.nodes.idle_watch(task, watch)


def contract(task: Task) -> dict[str, str]:
    """Returns the environment of the task's script, after creating its directories."""
    plan, spec = task.plan, task.spec
    hosts = task.addresses()
    directories = task.nodes.directories(task)
    for name in spec.outputs:
        directories[f"FAIRWAY_OUTPUT_{name.upper()}"] = task.nodes.written(task) / name
    for directory in (task.folder, *directories.values()):
        directory.mkdir(parents=True, exist_ok=True)
    own = {**plan.environment, **spec.environment}
    machine = {name: value for name, value in os.environ.items() if name != _OTHERS}
    environment = {
        **machine,
        **processes.NESTED,
        **own,
        "FAIRWAY_RUN": plan.run,
        "FAIRWAY_TASK": task.name,
        "FAIRWAY_ATTEMPT": str(task.attempt),
        "FAIRWAY_GRACE": f"{plan.grace:g}",
        "FAIRWAY_NODES": str(spec.nodes),
        "FAIRWAY_PROCESSES_PER_NODE": str(spec.processes_per_node),
        "FAIRWAY_WORLD_SIZE": str(task.ranks),
        "FAIRWAY_HOSTS": ",".join(hosts),
        "FAIRWAY_MAIN_HOST": hosts[0],
        **{name: str(directory) for name, directory in directories.items()},
        **{f"FAIRWAY_INPUT_{name.upper()}": str(path) for name, path in _inputs(task).items()},
        task.nodes.MARK: task.nodes.mark(task),
        **(task.share.environment() if task.share is not None else {}),
    }
    hostfile = task.folder / "hosts"
    hostfile.write_text("".join(f"{host}\n" for host in hosts), encoding="ascii")
    environment["FAIRWAY_HOSTFILE"] = str(hostfile)
    if spec.is_last:
        laid_out = task.folder / "tasks"
        outputs.lay_out(task.nodes.kept(task), laid_out)
        environment[_OTHERS] = str(laid_out)
    # One for each process of the main host, which stands for all nodes of a task on this machine.
    width = spec.processes_per_node * hosts.count(hosts[0])
    port = launchers.free_port(width, ports_of(environment))
    environment["FAIRWAY_MAIN_PORT"] = str(port)
    task.session_folder = task.nodes.session_folder(task)
    environment |= launchers.session(task.session_folder, environment)
    if task.hosts:
        direct = {name: value for name, value in machine.items() if name not in own}
        environment |= launchers.no_proxy_variables(hosts, direct)
    environment |= task.nodes.reach(task, environment.get("PATH", os.defpath))
    return environment | task.nodes.contract(task)


def _inputs(task: Task) -> dict[str, Path]:
    """Returns the folders of the inputs that another run has kept, by their names."""
    if not task.plan.run_inputs:
        return {}
    base, known = task.run_folder.parents[1], outputs.decide_best(task.run_folder, task.plan)
    return {each.name: base / each.path_for(known) for each in task.plan.run_inputs}


def missing_input(task: Task) -> str:
    """Returns why an input from another run is missing; "" if all are there."""
    try:
        inputs = _inputs(task)
    except (AgentError, OSError) as error:
        return said_of(error)
    for name, path in inputs.items():
        for parent in (path.parents[1], path.parent):
            # A node that shares the folder caches the absence of a file until it lists the folder.
            with suppress(OSError):
                list(parent.iterdir())
        if not path.is_dir():
            below = path.relative_to(task.run_folder.parents[1]).parts
            if len(below) < 6:
                return f"the input `{name}` no longer exists: {path}"
            _, other, _, number, _, output = below[:6]
            return f"task {number} of {other} has kept no file in `{output}`"
    return ""


_START_WAIT = 600.0  # seconds for a cause that keeps tasks from starting to disappear


def has_retry(task: Task, cause: str) -> bool:
    """Returns True if the task may start again after an attempt that ended for this cause and is
    already counted: within the cause's limit in `retry`, or else, as a failure, within `retries`. A
    lost node without a limit is free if a scheduler takes nodes away, and a failure elsewhere."""
    limits, lost_is_failure = task.plan.retry_limits, task.nodes.LOSSES_ARE_FAILURES
    if task.limit:
        return False
    if cause in limits:
        return not task.retries_exhausted(cause)
    if cause != ERROR and not lost_is_failure:
        return True
    counted = {*task.failures_by_cause} if lost_is_failure else {ERROR}
    failures = sum(task.failures_by_cause[each] for each in counted - limits.keys())
    return failures <= task.plan.retries


def after_attempt(task: Task, code: int, *, is_last: bool = False) -> tuple[str, int]:
    """Returns the state of a task whose attempt has ended with an exit code, and the code that
    counts. An attempt that did not end well is counted; `is_last` says that no other follows it.

    An attempt that was told to end for a reason that is not its own has not done its work, even if
    it saves and ends with 0: the user has cancelled it, its supervisor's machine stops, or it loses
    nodes.
    """
    stopped_for = task.stopped_for
    if stopped_for == CANCELLATION:
        return "cancelled", code
    if stopped_for == MACHINE:
        return "lost", code or TERMINATED
    if not code and not stopped_for:
        return "succeeded", 0
    loss = task.nodes.loss(task)
    cause = ERROR if loss is None else loss.cause
    task.failures_by_cause[cause] += 1
    again = has_retry(task, cause) and not is_last
    return ("queued" if again else "failed"), code or TERMINATED


@dataclass
class Patience:
    """Patience with a temporary hindrance to starting tasks, such as a full disk: it lasts for
    `seconds`, `until` a time on the monotonic clock once there is a `hindrance`."""

    seconds: float = _START_WAIT
    until: float | None = None
    hindrance: str | None = None

    def lasts(self, error: Exception) -> bool:
        """Returns True if the error may be temporary, and there is still time for that."""
        if not isinstance(error, OSError) or error.errno not in state_files.PASSING:
            return False
        now = time.monotonic()
        self.until = self.until or now + self.seconds
        if now >= self.until:
            return False
        self.hindrance = f"no task can be started: {error}"
        return True


def said_of(error: Exception) -> str:
    """Returns an error's text, with the hint if it has one."""
    return error.said if isinstance(error, AgentError) else str(error)


class Backend:
    """Backend of a task's attempts: its hooks into them. This one changes nothing."""

    # Errors that keep an attempt from starting, but do not concern the entire run.
    REFUSED: ClassVar[tuple[type[Exception], ...]] = (OSError,)

    def begin(self, task: Task) -> bool:
        """Waits for what an attempt needs; returns False if the task is asked to end before."""
        return True

    def look(self, task: Task) -> None:
        """Tells the task to end if it should."""

    def next_timer(self) -> float | None:
        """Returns when to look next, on the monotonic clock."""
        return None

    def ended(self, task: Task, code: int) -> int:
        """Records the end of an attempt and returns the exit code that counts."""
        return code

    def interrupted(self, attempts: Attempts, code: int) -> bool:
        """Returns True if the attempt was cut short, and then records the consequence."""
        return False

    def refusal(self, error: Exception) -> tuple[int, str]:
        """Returns the exit code of a task that could not be started, and the reason."""
        return IO_ERROR, f"it could not be started: {said_of(error)}"


@dataclass
class Attempts:
    """One task's attempts. `state` is that of the task: `queued` before each attempt, then
    `running`, and then `queued` again or its final one, with its exit code."""

    task: Task
    backend: Backend = field(default_factory=Backend)
    patience: Patience = field(default_factory=Patience)
    state: str = "queued"
    exit_code: int = 0

    def start(self) -> None:
        """Starts the next attempt. If that fails for a temporary reason, the task stays queued, and
        `patience` knows the hindrance; for any other reason the task fails."""
        task, number, process = self.task, self.task.attempt, self.task.process
        try:
            if not self.backend.begin(task):
                self.decide(CANCELLED, is_last=True)
                return
            launch(task)
        except self.backend.REFUSED as error:
            has_begun = task.process is not process
            if not has_begun:
                task.attempt, task.stopped_for = number, ""
            else:  # its state could not be written
                processes.end_all(task.sessions)
            if has_begun or not self.patience.lasts(error):
                code, reason = self.backend.refusal(error)
                self.finish("failed", code, reason)
            return
        self.patience.until = self.patience.hindrance = None
        self.state = "running"

    def poll(self) -> int | None:
        """Does what is due; returns the exit code of the attempt once it has ended."""
        self.backend.look(self.task)
        self.task.check_timers()
        code = self.task.ended()
        return None if code is None else self.backend.ended(self.task, code)

    def next_timer(self) -> float | None:
        """Returns when to poll next, if nothing happens before, on the monotonic clock."""
        due = (self.task.next_timer(), self.backend.next_timer())
        return min((each for each in due if each is not None), default=None)

    def decide(self, code: int, *, is_last: bool = False) -> None:
        """Records what follows an attempt that has ended with an exit code."""
        if self.backend.interrupted(self, code):
            return
        task = self.task
        setup_failed = code != 0 and task.nodes.setup_failed(task)
        state, code = after_attempt(task, code, is_last=is_last or setup_failed)
        if state != "queued":
            self.finish(state, code)
            return
        self.state, self.exit_code = state, code
        task.record(replace(task.status("queued"), reason=task.failure_reason()))

    def finish(self, state: str, code: int, reason: str | None = None) -> None:
        self.task.reason = reason or self.task.reason
        self.state = self.task.finish(state, code)
        self.exit_code = code if self.state == state else code or IO_ERROR
