"""The runs of a project, and a handle for one over its folder and its engine."""

from __future__ import annotations

import math
import shlex
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from fairway_agent.quick import dataclass
from fairway_core.findings import Finding, UserError
from fairway_core.project_folder import find_project
from fairway_core.suggestions import did_you_mean
from fairway_runner.engines.capabilities import runs_here
from fairway_runner.quantities import duration
from fairway_runner.runs.folder import RunFolder, RunFolders, chosen_task, log_owner
from fairway_runner.runs.records import (
    FINAL_STATES,
    GONE,
    RunRecord,
    has_steps,
    is_step_of,
    known_grace,
)

if TYPE_CHECKING:
    from fairway_agent.state_files import RunState
    from fairway_runner.engines.engine import Engine
    from fairway_runner.runs.figures import Sample
    from fairway_runner.runs.folder import Content
    from fairway_runner.runs.log_lines import LogLine
    from fairway_runner.runs.results import TaskResult

_SLACK = 60.0  # seconds beyond a task's grace until its end is recorded

__all__ = ["FINAL_STATES", "Run", "RunRecord", "RunStore"]


@dataclass(frozen=True)
class Run(RunFolder):
    """A submitted run: its record, states, logs and results, and what can be done with it."""

    @property
    def tasks(self) -> list[TaskResult]:
        """Every task: its parameters, state and last metrics."""
        from fairway_runner.runs.results import task_results

        return task_results(self)

    @property
    def metrics(self) -> dict[str, float]:
        """The last value of each metric of the first task; for a sweep, use `tasks`."""
        return self.tasks[0].metrics

    @cached_property
    def engine(self) -> Engine:
        """Engine that runs it, with its own connection to a remote target."""
        from fairway_runner.engines.engine import engine_for, engine_of_steps
        from fairway_runner.targets.lookup import submitted_to

        if has_steps(self.folder):
            return engine_of_steps()
        return engine_for(submitted_to(self))

    def reread(self) -> None:
        """Discards the cached description of its target."""
        self.__dict__.pop("engine", None)

    def refresh(self, *, logs: bool = False, samples: bool = False) -> None:
        """Updates its folder from a remote target: the states, and if asked logs and samples."""
        if not runs_here(self.record.engine) and not self.is_unsent:
            self.engine.refresh([self], logs=logs, samples=samples)

    def follow(self, *, logs: bool = False) -> None:
        """Refreshes like `refresh`, and advances the run: steps that are due are started."""
        if has_steps(self.folder):
            self.engine.go_on(self, logs=logs)
        else:
            self.refresh(logs=logs)

    @property
    def figures(self) -> dict[str, list[Sample]]:
        """The samples of its nodes, by node name, up to date: GPUs, memory, network and more."""
        from fairway_runner.runs.figures import figures

        self.refresh(samples=True)
        return figures(self)

    def logs(
        self,
        *,
        task: str | int | None = None,
        rank: int | None = None,
        attempt: int | None = None,
        grep: str | None = None,
        tail: int | None = None,
    ) -> list[LogLine]:
        """The lines that its tasks have printed, up to date: one record per line.

        The arguments select the lines of one task, rank or attempt (from 1), those that match the
        regular expression `grep`, and the last `tail` lines of each task. Raises UserError for a
        task, rank or attempt that does not exist, and if the log does not record ranks or attempts.
        """
        from fairway_runner.runs import log_lines as lines

        run, task = log_owner(self, task)
        run.refresh(logs=True)
        if tail is not None and tail < 0:
            raise UserError.of("bad-value", f"tail: {tail} is below 0", "0 leaves all lines out")
        expression, numbers = lines.pattern(grep), lines.task_numbers(run, task)
        ranks = lines.ranks_wanted(run, task, rank)
        logs = lines.logs_of(run, task, ranks)
        wanted = lines.Selection(logs, ranks, attempt, expression, tail)
        if attempt is not None:
            lines.require_attempt(run, numbers, attempt)
        return [
            lines.LogLine(number, line.attempt, line.rank, line.text)
            for number, log in zip(numbers, logs[-len(numbers) :], strict=True)
            for line in wanted.taken(log.lines(ended=True))
        ]

    def cancel(self, task: str | int | None = None) -> None:
        """Cancels the run, or one task or step by number or name; returns when it has ended."""
        if task is not None:
            self._cancel_task(task)
        elif not self.end_unsent():
            self.engine.cancel(self)

    def _cancel_task(self, task: str | int) -> None:
        """Ends one task. Raises UserError if that takes 60 s longer than the task's grace."""
        index, engine = chosen_task(self, task), self.engine

        def state_now() -> str:
            return self.task_status(index, self.state).state

        engine.refresh([self])
        if state_now() not in FINAL_STATES:
            engine.cancel_task(self, index)
            grace = 0.0 if has_steps(self.folder) else known_grace(self.folder)
            deadline = time.monotonic() + grace + _SLACK
            while (state := state_now()) not in FINAL_STATES:
                if time.monotonic() >= deadline:
                    name, hint = self.task_name(index), f"see its state: fairway show {self.id}"
                    message = f"task {name} of {self.id} is being ended, but is still {state}"
                    raise UserError.of("not-ended", message, hint, exit_code=5)
                time.sleep(engine.pause)
                engine.refresh([self])
        if state_now() == "lost" and self.status.reason == GONE:
            message = f"the folder of {self.id} is gone, and no task of it can be ended alone"
            hint = f"end all that still runs of it: fairway cancel {self.id}"
            raise UserError.of("gone-run", message, hint, exit_code=5)

    def wait(self, timeout: float | None = None) -> None:
        """Returns when the run has ended, or is lost. UserError for one that nobody sends, and with
        exit code 5 for one that goes on after `timeout` seconds."""
        for _ in self.looks(timeout=timeout):
            pass

    def looks(
        self, *, logs: bool = False, timeout: float | None = None, began: float | None = None
    ) -> Iterator[RunState]:
        """Yields the state of the run at one look after another, until it has ended; each look
        refreshes its folder, with `logs` its logs too. Raises UserError as `wait` does; `timeout`
        counts from `began` on the monotonic clock, by default now. Work between two looks takes a
        tenth of the time at most."""
        from fairway_runner.engines.outage import OutageTolerance, polling_pauses

        began = time.monotonic() if began is None else began
        end = math.inf if timeout is None else began + timeout
        tolerance = OutageTolerance(self, self.engine.deadline)
        for pause in polling_pauses(self.engine.pause):
            left = end - time.monotonic()
            with self.engine.within(max(0.0, left)):
                tolerance.call(lambda: self.follow(logs=logs))
            status, seen = self.status, time.monotonic()
            if left <= 0 and not status.is_final:
                message = f"{self.id} is still {status.state} after {duration(timeout)}"
                hint = f"it goes on; to end it: fairway cancel {self.id}"
                raise UserError.of("wait-timeout", message, hint, exit_code=5)
            yield status
            if status.is_final:
                break
            took = time.monotonic() - seen
            time.sleep(max(0.0, min(max(pause, 9 * took), left)))
        if runs_here(self.record.engine):
            self.await_lock()  # its supervisor has yet to finish


@dataclass(frozen=True)
class RunStore(RunFolders):
    """The runs of one project; see `fairway_core.project_folder` for where that is."""

    @classmethod
    def here(cls) -> RunStore:
        """Returns the store of the current project. Raises UserError if there is no such folder."""
        return cls.of(None)

    @classmethod
    def of(cls, folder: Path | None) -> RunStore:
        """Returns the store of the project that a folder is in, or the current one's."""
        return cls(find_project(folder)[0] / ".fairway")

    def create(self, record: RunRecord, files: Mapping[str, Content]) -> tuple[Run, int]:
        """Creates a run's folder atomically, with its lock held; see `RunFolders`."""
        made, lock = super().create(record, files)
        return Run(made.folder), lock

    def all(self) -> list[Run]:
        """Returns every run, the newest last."""
        return sorted(self.unsorted(), key=lambda run: run.record.created)

    def find(self, text: str, *, active: bool = False) -> Run:
        """Returns the run with that id, or the only one whose id begins so, not counting its steps.
        Raises UserError otherwise. With `active`, ended runs do not count if an active one
        matches."""
        known = [run.id for run in self.unsorted()]
        matches = sorted(run_id for run_id in known if text and run_id.startswith(text))
        if text in known:
            matches = [text]
        if len(matches) > 1 and has_steps(self.folder / matches[0]):  # the shortest match
            parent_run, *others = matches
            if all(is_step_of(self.folder / each, parent_run) for each in others):
                matches = [parent_run]
        if len(matches) > 1 and active:
            matches = [each for each in matches if self._is_active(each)] or matches
        if len(matches) == 1:
            return Run(self.folder / matches[0])
        if matches:
            listed = ", ".join(matches[:8]) + (", …" if len(matches) > 8 else "")
            message = f"`{text}` is ambiguous: it matches {len(matches)} runs"
            raise UserError.of("ambiguous-run", message, f"one of: {listed}")
        none = self.elsewhere() or "no run was submitted from this project yet"
        hint = (did_you_mean(text, known) or "list them: fairway list") if known else none
        raise UserError.of("unknown-run", f"there is no run `{text[:80]}` in {self.base}", hint)

    def _is_active(self, run_id: str) -> bool:
        try:
            return Run(self.folder / run_id).state not in FINAL_STATES
        except (UserError, OSError):
            return False

    def elsewhere(self) -> str:
        """Returns a hint at runs in a folder above, not found without a `fairway.yaml`; or ""."""
        for folder in self.base.parent.parents:
            if (folder / self.base.name / self.folder.name).is_dir():
                return f"there are runs in {folder}: cd {shlex.quote(str(folder))}"
        return ""

    def unsorted(self) -> Iterator[Run]:
        return (Run(each.folder) for each in super().unsorted())


_AT_ONCE = 16  # targets


def refresh_all(
    runs: Iterable[Run], *, logs: bool = False, patience: float | None = None
) -> list[Finding]:
    """Refreshes the active runs on other machines, and with `logs` also downloads the output of
    those with metrics, even if they have ended; returns the problems of targets that do not answer,
    whose runs stay as they were last seen. All targets are asked in parallel; an unreachable one is
    asked once, and again for `patience` seconds, by default as long as its engine does."""
    errors = refresh_errors(runs, logs=logs, patience=patience)
    return list(dict.fromkeys(finding for error in errors for finding in error.findings))


def refresh_errors(
    runs: Iterable[Run], *, logs: bool = False, patience: float | None = None
) -> list[UserError]:
    """Refreshes runs as `refresh_all` does; returns the errors of their targets."""
    by_target: dict[str, dict[tuple[str, bool], list[Run]]] = {}
    for run in runs:
        try:
            elsewhere = not runs_here(run.record.engine) and not run.is_unsent
            printed = logs and bool(run.record.metrics)
            # A run with steps queries the targets of its steps itself.
            place = run.id if has_steps(run.folder) else run.record.target
            if elsewhere and (printed or not run.status.is_final):
                key = (run.record.engine, printed)
                by_target.setdefault(place, {}).setdefault(key, []).append(run)
        except (UserError, OSError):
            continue  # reading the run reports the error
    look, places = partial(_look, patience=patience), by_target.values()
    if len(places) > 1:
        from concurrent.futures import ThreadPoolExecutor  # slow to import

        with ThreadPoolExecutor(_AT_ONCE) as pool:
            found = list(pool.map(look, places))
    else:
        found = [*map(look, places)]
    return [*chain.from_iterable(found)]


def _look(
    groups: Mapping[tuple[str, bool], Sequence[Run]], patience: float | None
) -> list[UserError]:
    """Refreshes the runs of one target, until it does not answer; returns the errors. Runs with the
    same engine and the same need for logs are refreshed together."""
    errors: list[UserError] = []
    for (_, printed), runs in groups.items():
        try:
            engine = runs[0].engine
            with engine.within(engine.deadline if patience is None else patience):
                engine.refresh(runs, logs=printed)
        except UserError as error:
            from fairway_runner.engines.outage import TargetUnavailable

            errors.append(error)
            if isinstance(error, TargetUnavailable):
                break
    return errors


def enter(
    run: Run,
    command: Sequence[str],
    *,
    task: str | int | None = None,
    node: int | None = None,
    rank: int | None = None,
) -> int:
    """Runs the command in the environment, folder and container of a running task, as its user, on
    this terminal; returns its exit code. By default it is the first running task, and its main
    node; a rank selects the node. Raises UserError if no such task runs, or it has no such node or
    rank."""
    run.refresh()
    if run.state in FINAL_STATES:
        hint = f"look at its files: fairway fetch {run.id}"
        raise UserError.of("ended-run", f"{run.id} has ended: {run.state}", hint)
    tasks = run.tasks
    wanted = tasks if task is None else [tasks[chosen_task(run, task)]]
    found = next((each for each in wanted if each.state == "running"), None)
    if found is None:
        what = f"no task of {run.id}" if task is None else f"task {task} of {run.id}"
        raise UserError.of("not-running", f"{what} is running", f"see: fairway show {run.id}")
    found.require_place(rank, node)
    node_index = node if node is not None else (rank or 0) // found.processes_per_node
    words = ["-" if rank is None else str(rank), *command]
    return run.engine.enter(run, found.index, node_index, words)
