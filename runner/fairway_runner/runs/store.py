"""Runs on disk: a folder each under `.fairway/runs/`, which is the truth about the run.

run.json     what was submitted, once and for all
state.json   where it stands, replaced as a whole at each change
lock         held for as long as somebody watches over the run
tasks/N/     a task's script, log, state and outputs
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import shutil
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairway_core.findings import UserError
from fairway_core.project_folder import find_project
from fairway_core.spelling import did_you_mean
from fairway_runner.engines.capabilities import runs_here
from fairway_runner.runs.labels import read_labels, write_labels
from fairway_runner.runs.records import (
    FINAL_STATES,
    RunRecord,
    damaged,
    read_kept,
    read_record,
    read_state,
    settled,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from fairway_runner.engines.engine import Engine
    from fairway_runner.runs.labels import Labels
    from fairway_runner.runs.results import TaskResult

__all__ = ["FINAL_STATES", "Run", "RunRecord", "RunStore"]

# Letters and digits that cannot be taken for one another when read aloud.
_ALPHABET = "23456789abcdefghjkmnpqrstuvwxyz"


@dataclass(frozen=True)
class Run:
    """A run's folder and what can be read from it."""

    folder: Path

    @property
    def id(self) -> str:
        """The run's id, which is its folder's name."""
        return self.folder.name

    @cached_property
    def record(self) -> RunRecord:
        """What was submitted."""
        return read_record(self.folder / "run.json")

    @property
    def status(self) -> dict[str, Any]:
        """The last recorded state, with `state` set to lost where nobody watches any more."""
        status = self._recorded()
        if status["state"] in FINAL_STATES or not runs_here(self.record.engine):
            return status
        if self._is_watched():
            return status
        # It may have ended between the two looks.
        status = self._recorded()
        return status if status["state"] in FINAL_STATES else {**status, "state": "lost"}

    @property
    def state_at_end(self) -> str:
        """The state of a run whose lock the caller holds, so that nobody else watches it."""
        state = str(self._recorded()["state"])
        if not runs_here(self.record.engine):
            return state
        return state if state in FINAL_STATES else "lost"

    @property
    def state(self) -> str:
        """One of queued, running, succeeded, failed, cancelled, lost."""
        return str(self.status["state"])

    def task_folder(self, index: int) -> Path:
        """The folder of one task."""
        return self.folder / "tasks" / str(index)

    def log(self, index: int) -> Path:
        """The file with all that a task printed; it may not exist yet."""
        return self.task_folder(index) / "log.txt"

    def task_status(self, index: int, run_state: str = "running") -> dict[str, Any]:
        """A task's recorded state; in a run that has ended, none is still to come."""
        return settled(self._state_of(self.task_folder(index)), run_state)

    @property
    def exit_code(self) -> int:
        """The job's own code: 0, or that of the first task that did not succeed; 130 and 5
        where a run was cancelled or lost before a task had one."""
        state = self.state
        if state == "succeeded":
            return 0
        if state == "cancelled":
            return 130
        for folder in (self.folder / "setup", *map(self.task_folder, range(self.record.tasks))):
            code = self._state_of(folder).get("exit_code")
            if code:
                return int(code)
        return 5

    def setup_status(self, run_state: str = "running") -> dict[str, Any] | None:
        """The recorded state of the job's setup; None where it has none."""
        if not (self.folder / "setup.jsonl").exists():
            return None
        return settled(self._state_of(self.folder / "setup"), run_state)

    @property
    def is_sweep(self) -> bool:
        """Whether it has several tasks, the one of `finally:` left out."""
        return self.record.tasks - (self.folder / "finally.jsonl").exists() > 1

    @property
    def tasks(self) -> list[TaskResult]:
        """Every task: its parameters, state and last metrics."""
        from fairway_runner.runs.results import task_results

        return task_results(self)

    @property
    def metrics(self) -> dict[str, float]:
        """The last value of each metric of the first task; of a sweep, look at its `tasks`."""
        return self.tasks[0].metrics

    @property
    def labels(self) -> Labels:
        """The tags by which it can be found, and what somebody has written about it."""
        return read_labels(self.folder, self.record)

    @property
    def tags(self) -> tuple[str, ...]:
        """The words by which it can be found."""
        return self.labels.tags

    @property
    def note(self) -> str:
        """What somebody has written about it."""
        return self.labels.note

    def label(
        self, add: Iterable[str] = (), *, remove: Iterable[str] = (), note: str | None = None
    ) -> Labels:
        """Adds tags, takes some off, writes another note where one is given; returns all.

        UserError for what cannot be a tag, and for one to take off that is not there.
        """
        return write_labels(self.folder, self.record, add, remove, note)

    def log_text(self, index: int = 0) -> str:
        """All that a task printed so far."""
        try:
            return self.log(index).read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return ""

    @cached_property
    def engine(self) -> Engine:
        """What runs it, with a connection of its own where that is elsewhere."""
        from fairway_runner.engines.engine import engine_for, target_of

        if runs_here(self.record.engine):
            from fairway_core.target import Target

            return engine_for(Target.local())
        from fairway_runner.targets.lookup import as_known_now

        path = self.folder / "target.json"
        try:
            target = target_of(read_kept(path))
        except ValueError:  # pydantic's ValidationError is one
            raise damaged(path, "it is no target") from None
        return engine_for(as_known_now(target))

    def refresh(self, *, logs: bool = False) -> None:
        """Brings its folder up to date where it runs elsewhere: states, and logs if wanted."""
        if not runs_here(self.record.engine):
            self.engine.refresh([self], logs=logs)

    def cancel(self) -> None:
        """Ends the run early; returns when it has ended."""
        self.engine.cancel(self)

    @staticmethod
    def _state_of(folder: Path) -> dict[str, Any]:
        try:
            return read_state(folder / "state.json")
        except FileNotFoundError:
            return {"state": "queued"}

    def wait(self) -> None:
        """Returns when the run has ended, or is lost."""
        self.engine.wait(self)

    def await_lock(self) -> None:
        """Returns when nobody holds the run's lock."""
        lock = self._open_lock()
        try:
            fcntl.flock(lock, fcntl.LOCK_SH)
        finally:
            os.close(lock)

    def take_lock(self) -> int:
        """The open descriptor of the run's lock; UserError while somebody else has it."""
        lock = self._open_lock()
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            raise running(self) from None
        return lock

    def _recorded(self) -> dict[str, Any]:
        path = self.folder / "state.json"
        try:
            return read_state(path)
        except FileNotFoundError:
            if not self.folder.exists():
                raise  # it was removed just now
            raise damaged(path, "missing") from None

    def _is_watched(self) -> bool:
        lock = self._open_lock()
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(lock)
        return False

    def _open_lock(self) -> int:
        path = self.folder / "lock"
        try:
            return os.open(path, os.O_RDONLY)
        except OSError as error:
            if not self.folder.exists():
                raise  # it was removed just now
            raise damaged(path, str(error.strerror)) from None


def running(run: Run) -> UserError:
    """What is said where a run would have to have ended."""
    hint = f"wait for its end (fairway wait {run.id}) or end it (fairway cancel {run.id})"
    return UserError.of("running-run", f"{run.id} has not ended", hint)


@dataclass(frozen=True)
class RunStore:
    """The runs of one project; see `fairway_core.project_folder` for where that is."""

    base: Path

    @classmethod
    def here(cls) -> RunStore:
        """The store of the project that we are in; UserError where there is no such folder."""
        return cls.of(None)

    @classmethod
    def of(cls, folder: Path | None) -> RunStore:
        """The store of the project that a folder is in, or where we are without one."""
        return cls(find_project(folder)[0] / ".fairway")

    @property
    def folder(self) -> Path:
        """Where the runs' folders lie."""
        return self.base / "runs"

    def create(self, record: RunRecord, files: Mapping[str, str]) -> tuple[Run, int]:
        """Makes a run's folder as a whole, with its lock taken.

        `files` are texts by their path in the folder. Returns the run and the open
        descriptor that holds its lock. UserError where nothing can be written.
        """
        with self.recording():
            return self._create(record, files)

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Around what is written here: a UserError where it cannot be."""
        try:
            yield
        except OSError as error:
            message = f"the run cannot be recorded in {self.base}: {error.strerror}"
            hint = "submit from a folder that you may write to"
            raise UserError.of("unwritable-folder", message, hint) from None

    def _create(self, record: RunRecord, files: Mapping[str, str]) -> tuple[Run, int]:
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.base / ".gitignore").write_text("*\n", encoding="ascii")
        draft = self.folder / f".{record.id}"
        draft.mkdir()
        try:
            records = {
                "run.json": json.dumps(asdict(record), indent=1),
                "state.json": json.dumps({"state": "queued"}),
                "lock": "",
            }
            for name, text in {**files, **records}.items():
                path = draft / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
            lock = os.open(draft / "lock", os.O_RDONLY)
            fcntl.flock(lock, fcntl.LOCK_EX)
            draft.rename(self.folder / record.id)
        except BaseException:
            shutil.rmtree(draft, ignore_errors=True)
            raise
        return Run(self.folder / record.id), lock

    def new_id(self, name: str) -> str:
        """An id that no run of this store has: the job's name and six random characters."""
        while True:
            run_id = f"{name}-{''.join(secrets.choice(_ALPHABET) for _ in range(6))}"
            if not (self.folder / run_id).exists():
                return run_id

    def all(self) -> list[Run]:
        """Every run, the newest last."""
        return sorted(self.unsorted(), key=lambda run: run.record.created)

    def find(self, text: str) -> Run:
        """The run with that id, or the only one whose id begins so; UserError otherwise."""
        known = [run.id for run in self.unsorted()]
        if text in known:
            return Run(self.folder / text)
        matches = sorted(run_id for run_id in known if text and run_id.startswith(text))
        if len(matches) == 1:
            return Run(self.folder / matches[0])
        if matches:
            listed = ", ".join(matches[:8]) + (", …" if len(matches) > 8 else "")
            message = f"`{text}` is ambiguous: it matches {len(matches)} runs"
            raise UserError.of("ambiguous-run", message, f"one of: {listed}")
        hint = did_you_mean(text, known) if known else "no run was submitted from this project yet"
        raise UserError.of("unknown-run", f"there is no run `{text}` in {self.base}", hint)

    def unsorted(self) -> Iterator[Run]:
        """Every run, in no order."""
        if not self.folder.is_dir():
            return
        for entry in os.scandir(self.folder):
            # A folder without a record is what was left when a run was half removed.
            if not entry.name.startswith(".") and Path(entry.path, "run.json").is_file():
                yield Run(Path(entry.path))
