"""Interface of an engine, which each kind of target implements in a module of its own.

A run's folder under `.fairway/runs/` has the same files whatever its engine is. If the run happens
elsewhere, the folder is a mirror, which `refresh` updates: code that reads states, logs and outputs
reads files, and need not know about engines.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, cast

from fairway_agent.quick import dataclass
from fairway_core.findings import Finding, UserError
from fairway_runner.engines import outage
from fairway_runner.engines.capabilities import capabilities

if TYPE_CHECKING:
    from fairway_agent.spec import RunOutputInput, Staged
    from fairway_core.machine import Machine
    from fairway_core.target import Target
    from fairway_runner.engines.schedules import Schedules
    from fairway_runner.jobs.job import Job
    from fairway_runner.runs.folder import RunFolder, RunFolders
    from fairway_runner.runs.output_files import RunOutput

    Runs = Sequence[RunFolder]

_END_SLACK = 60.0  # seconds beyond a job's grace until its end is recorded

Secrets = Mapping[str, str]
Progress = Callable[[int, int], None]


def no_progress(done: int, of: int) -> None:
    """Ignores the number of downloaded files."""


@dataclass(frozen=True)
class Node:
    """A node of a target: its name, its state in the engine's own word, and the runs on it;
    `reason` says why it is unfit, `facts` are more columns, and `machine` is its VM if known."""

    name: str
    state: str
    address: str = ""
    run: str = ""
    reason: str = ""
    facts: dict[str, str] = field(default_factory=dict)
    machine: Machine | None = None


@dataclass
class Engine(outage.Patient):
    """Base of engines, for one target. A failing service is retried for `deadline` seconds; `pause`
    is that between two looks at an active run.

    An engine overrides what it can do; the defaults are those of one that needs nothing. Methods
    raise UserError for what the user can fix, TargetUnavailable if the target does not answer.
    HINTS say what to do instead of calling a method that the engine lacks.
    """

    target: Target
    deadline: float = outage.USUAL
    pause: ClassVar[float] = 1.0
    HINTS: ClassVar[Mapping[str, str]] = {}

    def require(self, job: Job, needs: Sequence[str]) -> None:
        """Refuses jobs that can never run there; `needs` are programs for the main host's PATH."""

    def no_capacity(self, job: Job) -> str:
        """Returns why a job submitted now would wait for nodes that are not available, if the
        target knows; "" if it may start, or has its turn after others."""
        return ""

    def begin_connection(self) -> None:
        """Connects in the background for a run about to start; failures are raised on first use,
        UserError at once if something for it is missing on this machine."""

    def environment(self) -> dict[str, str]:
        """Returns the variables of every task, set before those of the contract."""
        return {}

    def task_environment(self, ranks: int) -> dict[str, str]:
        """Returns additional variables of a task with that many ranks."""
        return {}

    def predecessor(self, run: RunFolder) -> str:
        """Returns the name of a run in the plan of a later one, under `after`."""
        raise self.unsupported("wait for another run")

    def waits_for(self, other: Target) -> bool:
        """Returns True if a run here starts by itself once one on the other target has ended."""
        return False

    def input_from(self, run_id: str, name: str, kept: RunOutput) -> RunOutputInput | Staged:
        """Returns the entry in the plan of a later run of that id for an output that a task has
        kept: its path, if the target's tasks see it, or else the path on this machine from which
        `start` copies it."""
        raise NotImplementedError

    def start(
        self, run: RunFolder, lock: int, snapshot: Path, secrets: Secrets, *, retry: bool = False
    ) -> None:
        """Starts the recorded run on the code of `snapshot`, or completes an interrupted start.
        `lock` holds the run's lock, and is closed here; `retry` says that tasks run again, as
        `retry.json` has it."""
        raise NotImplementedError

    def refresh(self, runs: Runs, *, logs: bool = False, samples: bool = False) -> None:
        """Updates the states of these runs in their folders, with `logs` and `samples` also these;
        an ended run of which everything requested is known stays as it is."""

    def go_on(self, run: RunFolder, *, logs: bool = False) -> None:
        """Refreshes a run, and starts each of its steps that is due."""
        self.refresh([run], logs=logs)

    def wait(self, run: RunFolder, longest: float = math.inf) -> None:
        """Waits until the run has ended, or is lost; for `longest` seconds if it was told to."""
        tolerance = outage.OutageTolerance(run, self.deadline, ends=longest < math.inf)
        end = time.monotonic() + longest
        for pause in outage.polling_pauses(self.pause):
            tolerance.call(lambda: self.go_on(run))
            if self.has_ended(run) or time.monotonic() >= end:
                return
            time.sleep(pause)

    def has_ended(self, run: RunFolder) -> bool:
        """Returns True if a run is known here to have ended."""
        from fairway_runner.runs.records import known_state

        return known_state(run.folder).is_final

    def await_end(self, run: RunFolder, grace: float | None = None) -> None:
        """Waits for the end of a run that was told to end, with the grace that is left, by default
        all of it. Raises UserError if that takes 60 s longer, as with a full disk, where nobody can
        write its state."""
        from fairway_runner.runs.records import known_grace, known_state

        self.wait(run, (known_grace(run.folder) if grace is None else grace) + _END_SLACK)
        if not self.has_ended(run):
            state = known_state(run.folder).state
            message = f"{run.id} was told to end, but its state is still `{state}`"
            hint = f"see its state: fairway show {run.id}\n"
            hint += f"if it stays so: fairway doctor {self.target.name}"
            raise UserError.of("not-ended", message, hint, exit_code=5)

    def collect(
        self, run: RunFolder, tasks: Sequence[int], arrived: Progress = no_progress
    ) -> None:
        """Downloads the outputs of these tasks; `arrived` is called for files that come singly."""

    def cancel(self, run: RunFolder) -> None:
        """Ends a run early and waits for its end; one that has ended stays as it is."""
        raise NotImplementedError

    def cancel_task(self, run: RunFolder, task: int) -> None:
        """Tells one task of an active run to end; its state says when it has. One that has not
        begun never does."""
        raise NotImplementedError

    def remove(self, run: RunFolder) -> None:
        """Removes everything of a run that has ended, except its folder here."""

    def adopt(self, store: RunFolders) -> Sequence[Finding]:
        """Creates folders for runs of other machines; returns findings about unreadable ones."""
        return ()

    def nodes(self) -> list[Node]:
        """Returns the nodes of the target, sorted by name."""
        return []

    def act_on_node(self, action: str, node: str) -> None:
        """Carries out `reboot`, `reimage`, `drain` or `resume`, or raises UserError."""
        if action not in capabilities(self.target.engine).node_actions:
            raise self.unsupported(f"{action} a node", self.HINTS.get("act_on_node", ""))
        self.order(action, node)

    def order(self, action: str, node: str) -> None:
        """Carries out one of the engine's own `node_actions`."""
        raise NotImplementedError

    def resize(self, nodes: int) -> None:
        """Requests that many nodes."""
        raise self.unsupported("be resized", self.HINTS.get("resize", ""))

    def schedules(self) -> Schedules:
        """Returns the schedules of the target."""
        hint = "let cron or a pipeline start it: fairway submit JOB --target NAME"
        raise self.unsupported("run jobs on a schedule", hint)

    def shell(self, node: str | None, command: Sequence[str] = (), *, forward: str = "") -> int:
        """Opens a shell on a node, or runs a command; with `LOCAL_PORT:HOST:PORT` only forwards."""
        raise self.unsupported("be connected to", self.HINTS.get("shell", ""))

    def main_host(self, run: RunFolder) -> str:
        """Returns the main node of the first task that has one. Raises UserError before that."""
        for index in range(run.record.tasks):
            if names := run.task_status(index).node:
                return names.partition(",")[0]
        raise self.no_node_yet(run, 0)

    def enter(self, run: RunFolder, task: int, node: int, command: Sequence[str]) -> int:
        """Runs a command, see `fairway_agent.task_exec`, next to a task on one of its nodes."""
        raise NotImplementedError

    def no_node_yet(self, run: RunFolder, task: int) -> UserError:
        """Returns the error for a task that has not begun."""
        message = f"task {run.task_name(task)} of {run.id} has no node yet"
        return UserError.of("not-started", message, f"wait until it runs: fairway show {run.id}")

    def doctor(self) -> list[Finding]:
        """Returns the problems of the target, each with its hint."""
        return []

    def manifests(self) -> str:
        """Returns what the target needs before jobs run there, in the cluster's format."""
        raise self.unsupported("be prepared", "there is nothing to prepare: submit a job")

    def prepare(self) -> str:
        """Creates or updates these in the cluster; returns the cluster's output."""
        return self.manifests()

    def unsupported(self, what: str, hint: str = "") -> UserError:
        """Returns the error for a missing function; `hint` says what to do instead."""
        target = self.target
        message = f"`{target.name}` cannot {what}: its engine is `{target.engine}`"
        return UserError.of("not-supported", message, hint.format(target=target.name))


def engine_of_steps() -> Engine:
    """Returns the engine for runs of several steps, each of which has a target of its own."""
    from fairway_core.target import Target

    return engine_for(Target.local(), name="steps")


def engine_for(target: Target, deadline: float | None = None, *, name: str = "") -> Engine:
    """Returns a target's engine, or that of the name, imported now; `deadline` replaces that of the
    command line."""
    module = import_module(f"fairway_runner.engines.{name or target.engine}")
    if hasattr(module, "__path__"):  # a package
        module = import_module(f"{module.__name__}.engine")
    seconds = outage.deadline() if deadline is None else deadline
    return cast("Engine", module.ENGINE(target, seconds))


def inside_command(
    run: str, task: str, command: Sequence[str], python: str = "python3"
) -> list[str]:
    """Returns the command line that runs a command next to a task's rank, with which `command`
    begins; see `fairway_agent.task_exec`."""
    import fairway_agent

    source = Path(fairway_agent.__file__).with_name("task_exec.py").read_text(encoding="utf-8")
    # -I: neither the shell's folder nor its variables affect imports.
    return [python, "-I", "-c", source, run, task, *command]


def unready(target: Target) -> Finding | None:
    """Returns why nothing can run on a target yet; None if nothing is missing."""
    if target.access is None or target.access.host:
        return None
    message = f"`{target.name}` has no address: it had no node when its environment was deployed"
    hint = "once its nodes exist, deploy again, and then: fairway targets sync"
    return Finding("no-address", message, hint)


def account_address(target: Target) -> str:
    """Returns the URL of a target's Batch account, by default AZURE_BATCH_ENDPOINT; "" for none."""
    assert target.batch is not None, "a target of this engine has its section"
    return target.batch.endpoint or os.environ.get("AZURE_BATCH_ENDPOINT", "")


def is_addressed(target: Target) -> bool:
    """Returns True if the target's address is known."""
    return unready(target) is None and (target.batch is None or account_address(target) != "")


def new_key(comment: str) -> tuple[bytes, str]:
    """Returns a new ssh key pair in OpenSSH's form: the private key, with which the nodes of a run
    trust each other, and its public half. Raises UserError if ssh-keygen fails."""
    import subprocess
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "key")
        words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", str(file)]
        try:
            subprocess.run(words, check=True, capture_output=True, stdin=subprocess.DEVNULL)
        except FileNotFoundError:
            message = "`ssh-keygen` is not on this machine's PATH"
            hint = "install OpenSSH's client"
            raise UserError.of("missing-tool", message, hint, exit_code=4) from None
        except subprocess.CalledProcessError as error:  # for example, the user has no name
            said = error.stderr.decode(errors="replace").strip() or f"exit code {error.returncode}"
            message = f"`ssh-keygen` has made no key: {said}"
            hint = "see what it says: ssh-keygen -t ed25519 -f key"
            raise UserError.of("no-key", message, hint, exit_code=4) from None
        return file.read_bytes(), file.with_suffix(".pub").read_text(encoding="ascii").strip()
