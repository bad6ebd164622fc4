"""Runs on disk: a folder each under `.fairway/runs/`, which is the truth about the run.

run.json     the submission, written once
state.json   its state, replaced atomically at each change
engine.json  the record of a remote target's engine, written before anything is sent there
lock         held for as long as a process watches over the run
tasks/N/     a task's script, log, state and outputs; that of `finally:` has this name; its
             .metrics.json caches the metrics of a long log

Engines know runs as these folders; `store.Run` knows which engine runs one.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from fairway_agent import state_files
from fairway_agent.quick import dataclass
from fairway_agent.records import excerpt
from fairway_agent.spec import LAST
from fairway_agent.state_files import RunState, TaskState, exit_code_of, is_held
from fairway_boot.files import hold_lock, write_bytes
from fairway_core.findings import UserError
from fairway_core.suggestions import did_you_mean
from fairway_runner.engines.capabilities import runs_here
from fairway_runner.runs.records import (
    RunRecord,
    damaged,
    has_steps,
    is_step_of,
    known_state,
    known_task,
    read_as,
    read_json,
    recorded_steps,
    settled_state,
    writing,
)

if TYPE_CHECKING:
    from fairway_runner.runs.labels import Labels

    Content = str | Iterable[bytes]
    """Content of a file to write: a text, or bytes in pieces, where it may be very large."""

# Letters and digits that are not confused with one another when read aloud.
_ALPHABET = "23456789abcdefghjkmnpqrstuvwxyz"
MIRROR_LOCK = "mirror.lock"
_ELSEWHERE = "to keep runs on another disk, have the project there: export FAIRWAY_FOLDER=FOLDER"
_ANSWERED = ".answered"  # a leading dot: of this machine alone


@dataclass(frozen=True)
class RunFolder:
    """A run's folder and its contents."""

    folder: Path

    def __getstate__(self) -> dict[str, Path]:
        return {"folder": self.folder}  # neither cached records nor a connection

    @property
    def id(self) -> str:
        """The run's id, which is its folder's name."""
        return self.folder.name

    @property
    def place(self) -> str:
        """Path of its folder for messages."""
        return str(self.folder)

    @cached_property
    def record(self) -> RunRecord:
        """Record of the submission."""
        return read_as(self.folder / "run.json", RunRecord.from_json)

    @property
    def status(self) -> RunState:
        """The last recorded state; `state` is `lost` if nothing watches the run any more."""
        status = self._recorded()
        if status.is_final:
            return status
        if not runs_here(self.record.engine):
            return status if status.reason else replace(status, reason=self.not_sent or None)
        if self._is_watched():
            return status
        # The run may have ended between the two reads.
        status = self._recorded()
        if status.is_final:
            return status
        if self._began_nothing(status):
            reason = f"it never began; {self._how_to_resume}"
            return replace(status, state="lost", reason=reason)
        from fairway_agent.control import lost_state  # few are

        return lost_state(self.folder, status, f"its supervisor is gone; fairway retry {self.id}")

    @property
    def never_began(self) -> bool:
        """True if nothing of a run on this machine was ever started, and nothing is about to."""
        status = self.status
        return (
            runs_here(self.record.engine) and status.state == "lost" and self._began_nothing(status)
        )

    def _began_nothing(self, status: RunState) -> bool:
        if status.started is not None:
            return False
        folders = chain([self.folder / "setup"], (self.folder / "tasks").glob("*"))
        # A script is written before its task starts, and the state only afterwards.
        return not any((f / name).exists() for f in folders for name in ("launch.sh", "state.json"))

    @property
    def _how_to_resume(self) -> str:
        return f"resume it with: fairway submit --resume {self.id}"

    @property
    def is_unsent(self) -> bool:
        """True if nothing of it was ever sent to its remote target, which need not be asked."""
        return self._is_elsewhere and not (self.folder / "engine.json").exists()

    @property
    def _is_elsewhere(self) -> bool:
        return not (runs_here(self.record.engine) or has_steps(self.folder))

    @property
    def not_sent(self) -> str:
        """Reason why nothing of it was sent, and a hint; "" if something was, or is being sent."""
        return self.incomplete_submission_reason if self.is_unsent else ""

    def end_unsent(self) -> bool:
        """Cancels a run of which nothing was sent; returns False if its target has to be told."""
        if not self.is_unsent:
            return False
        try:
            lock = self.take_lock()
        except UserError:  # a command is about to submit it
            return False
        try:
            if self.is_unsent and not known_state(self.folder).is_final:
                counts = {"cancelled": self.record.tasks}
                state = RunState("cancelled", ended=time.time(), tasks=counts)
                state_files.write(self.folder, state)
            return self.is_unsent
        finally:
            os.close(lock)

    @property
    def state_at_end(self) -> str:
        """State of a run whose lock the caller holds, so that nobody else watches it."""
        status = self._recorded()
        return status.state if status.is_final or not runs_here(self.record.engine) else "lost"

    @property
    def state(self) -> str:
        """One of queued, running, succeeded, failed, cancelled, lost."""
        return self.status.state

    def task_name(self, index: int) -> str:
        """Returns the name of one task, and of its folder: its number, or `finally`."""
        return LAST if self.has_last and index == self.record.tasks - 1 else str(index)

    def index_of(self, name: str) -> int | None:
        """Returns the number of the task whose folder has that name; None if there is none."""
        is_number = name.isascii() and name.isdecimal() and str(int(name[:9])) == name
        index = int(name) if is_number else self.record.tasks - 1
        return index if 0 <= index < self.record.tasks and self.task_name(index) == name else None

    def task_folder(self, index: int) -> Path:
        """Returns the folder of one task."""
        return self.folder / "tasks" / self.task_name(index)

    def log(self, index: int) -> Path:
        """Returns the file with a task's output; it may not exist yet."""
        return self.task_folder(index) / "log.txt"

    def task_status(self, index: int, run_state: str = "running") -> TaskState:
        """Returns a task's recorded state; in a run that has ended, no task is pending."""
        return self._state_of(self.task_folder(index), run_state)

    @property
    def exit_code(self) -> int:
        """Exit code of the run: 0, or that of the first task that did not succeed; 124 if the run
        exceeded its limit; 130 or 5 if it was cancelled or lost before a task had one."""
        folders = chain([self.folder / "setup"], map(self.task_folder, range(self.record.tasks)))
        return exit_code_of(self.status, (self._state_of(each).exit_code for each in folders))

    def setup_status(self, run_state: str = "running") -> TaskState | None:
        """Returns the recorded state of the job's setup; None if it has none."""
        if not (self.folder / "setup.jsonl").exists():
            return None
        return self._state_of(self.folder / "setup", run_state)

    def note_answer(self) -> None:
        """Records that its target has just reported its state."""
        with suppress(OSError):  # a full disk must not fail the command
            (self.folder / _ANSWERED).touch()

    @property
    def last_known(self) -> float:
        """When its target last reported its state, in seconds since 1970."""
        for name in (_ANSWERED, "state.json"):
            with suppress(OSError):
                return (self.folder / name).stat().st_mtime
        return self.record.created

    @property
    def is_sweep(self) -> bool:
        """True if it has several tasks, not counting `finally:`."""
        return self.record.tasks - self.has_last > 1

    @property
    def has_last(self) -> bool:
        """True if its job has a `finally:`."""
        return (self.folder / "finally.jsonl").exists()

    @property
    def labels(self) -> Labels:
        """Its tags and its note."""
        from fairway_runner.runs.labels import read_labels

        return read_labels(self.folder, self.record)

    @property
    def tags(self) -> tuple[str, ...]:
        """Its tags."""
        return self.labels.tags

    @property
    def note(self) -> str:
        """Its note."""
        return self.labels.note

    def label(
        self, add: Iterable[str] = (), *, remove: Iterable[str] = (), note: str | None = None
    ) -> Labels:
        """Adds and removes tags, and replaces the note if one is given; returns all of them. Raises
        UserError for a text that cannot be a tag, and for a missing tag to remove."""
        from fairway_runner.runs.labels import write_labels

        return write_labels(self.folder, self.record, add, remove, note)

    def own_file(self, path: Path) -> Path:
        """Returns the path of a file in its folder, to write text of others to: makes its folder,
        and removes a link on the way or there, which may have come with a repository."""
        from fairway_agent.outputs import make_folder  # most commands write none

        make_folder(self.folder, path.parent)
        if path.is_symlink():
            path.unlink()
        return path

    def log_text(self, index: int = 0) -> str:
        """Returns a task's log so far."""
        try:
            return self.log(index).read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return ""

    @staticmethod
    def _state_of(folder: Path, run_state: str = "running") -> TaskState:
        status = known_task(folder) or TaskState()
        state = settled_state(status.state, run_state)
        return status if state == status.state else replace(status, state=state)

    def await_lock(self) -> None:
        """Waits until nobody holds the run's lock."""
        lock = self._open_lock()
        try:
            fcntl.flock(lock, fcntl.LOCK_SH)
        finally:
            os.close(lock)

    def take_lock(self) -> int:
        """Returns the descriptor of the run's lock. Raises UserError if another process has it."""
        lock = self._open_lock()
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            raise running(self) from None
        return lock

    def mirroring(self) -> AbstractContextManager[None]:
        """Holds the lock for writing its target's reports and its submissions."""
        return hold_lock(self.folder / MIRROR_LOCK)

    @property
    def incomplete_submission_reason(self) -> str:
        """Reason why its submission elsewhere was cut off; "" if it is complete or under way."""
        try:
            # Checked again after the lock, which is released once the submission is complete.
            if self._is_handed_over or self._is_watched() or self._is_handed_over:
                return ""
        except UserError:  # reading the run reports the error
            return ""
        return f"submission was interrupted; {self._how_to_resume}"

    @property
    def _is_handed_over(self) -> bool:
        """True if its target has all of it, and for a run of this machine."""
        try:
            known = read_json(self.folder / "engine.json") if self._is_elsewhere else None
        except FileNotFoundError:
            return False
        return known is None or known.get("complete") is True

    def require_submitted(self) -> None:
        """Raises UserError if it waits for nothing but the rest of its submission."""
        if known_state(self.folder).state == "queued" and (
            why := self.incomplete_submission_reason
        ):
            raise UserError.of("cut-off-submission", f"{self.id} was not submitted: {why}")

    def _recorded(self) -> RunState:
        path = self.folder / "state.json"
        try:
            return read_as(path, RunState.from_json)
        except FileNotFoundError:
            if not self.folder.exists():
                raise  # it was just removed
            raise damaged(path, "missing") from None

    def _is_watched(self) -> bool:
        return is_held(self._open_lock())

    def _open_lock(self) -> int:
        path = self.folder / "lock"
        try:
            return os.open(path, os.O_RDONLY)
        except OSError as error:
            if not self.folder.exists():
                raise  # it was just removed
            raise damaged(path, str(error.strerror)) from None


def running(run: RunFolder) -> UserError:
    """Returns the error for a run that must have ended first."""
    hint = f"wait for it (fairway wait {run.id}) or end it (fairway cancel {run.id})"
    return UserError.of("running-run", f"{run.id} has not ended", hint)


R = TypeVar("R", bound=RunFolder)
T = TypeVar("T", bound=str | int | None)


class TakenId(UserError):
    """Error for an id under which another command has just recorded a run."""


@dataclass(frozen=True)
class RunFolders:
    """The folders of one project's runs, below `base`."""

    base: Path

    @property
    def folder(self) -> Path:
        """Folder that contains the folders of all runs."""
        return self.base / "runs"

    def create(self, record: RunRecord, files: Mapping[str, Content]) -> tuple[RunFolder, int]:
        """Creates a run's folder atomically, with these `files` by their paths in it. Returns the
        run and the open descriptor that holds its lock. Raises UserError if nothing can be written,
        TakenId if there is such a run."""
        with self.recording():
            self.make()
            # A unique name: a killed process may have left a partial folder.
            draft = self.folder / f".{record.id}.{os.urandom(4).hex()}"
            draft.mkdir()
            try:
                facts = {"run.json": record.to_json(), "state.json": RunState().to_json()}
                records = {name: json.dumps(each, indent=1) for name, each in facts.items()}
                records["lock"] = ""
                for name, content in {**files, **records}.items():
                    path = draft / name
                    path.parent.mkdir(parents=True, exist_ok=True)
                    with path.open("wb") as file:
                        file.writelines([content.encode()] if isinstance(content, str) else content)
                lock = os.open(draft / "lock", os.O_RDONLY)
                fcntl.flock(lock, fcntl.LOCK_EX)
                try:
                    draft.rename(self.folder / record.id)
                except OSError as error:
                    os.close(lock)
                    if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                        raise
                    message = f"there is a run `{record.id}` already"
                    raise TakenId.of("taken-run-id", message, "choose another ID") from None
            except BaseException:
                shutil.rmtree(draft, ignore_errors=True)
                raise
            return RunFolder(self.folder / record.id), lock

    def make(self) -> None:
        """Creates the folder of runs, which git does not see. Raises UserError if it or its parent
        is a link: one from a repository would lead to other files. Raises OSError if it cannot."""
        for each in (self.base, self.folder):
            if each.is_symlink():
                message = f"{each} is a link, and runs are not written through one"
                hint = f"remove it: rm {each}\n{_ELSEWHERE}"
                raise UserError.of("linked-folder", message, hint)
        self.folder.mkdir(parents=True, exist_ok=True)
        ignored = self.base / ".gitignore"
        if ignored.is_symlink() or not ignored.is_file() or ignored.read_bytes() != b"*\n":
            write_bytes(ignored, b"*\n")

    def recording(self) -> AbstractContextManager[None]:
        """Raises UserError if writing in the block fails."""
        hint = "submit from a folder that you may write to"
        return writing(f"the run cannot be recorded in {self.base}", hint)

    def new_id(self, name: str) -> str:
        """Returns an id that no run of this store has: the job's name and six random characters."""
        while True:
            letters = "".join(_ALPHABET[each % len(_ALPHABET)] for each in os.urandom(6))
            run_id = f"{name}-{letters}"
            if not (self.folder / run_id).exists():
                return run_id

    def unsorted(self) -> Iterator[RunFolder]:
        """Yields every run, in no order."""
        if not self.folder.is_dir():
            return
        with os.scandir(self.folder) as entries:
            for entry in entries:
                # A folder without a record is left over from an interrupted removal.
                if not entry.name.startswith(".") and _has_record(Path(entry.path)):
                    yield RunFolder(Path(entry.path))


def _has_record(folder: Path) -> bool:
    try:
        return (folder / "run.json").is_file()
    except PermissionError:
        return True  # another user's: reading the run reports that


def chosen_task(run: RunFolder, task: str | int) -> int:
    """Returns the index of a task in the run, given its number, `finally`, or the name of a step.
    Raises UserError if the run has no such task."""
    names = [each.name for each in recorded_steps(run.folder)]
    if task in names:
        return names.index(str(task))
    count = run.record.tasks - run.has_last
    if task == LAST and run.has_last:
        return count
    if isinstance(task, str) and task.isascii() and task.isdecimal() and len(task) < 10:
        task = int(task)
    if isinstance(task, int) and 0 <= task < count:
        return task
    known = "its only task is 0" if count == 1 else f"its tasks are 0 to {count - 1}"
    known = f"{known}, and {LAST}" if run.has_last else known
    hint = did_you_mean(str(task), names) or known
    raise UserError.of("unknown-task", f"{run.id} has no task {excerpt(task)}", hint)


def log_owner(run: R, task: T) -> tuple[R, T | None]:
    """Returns the run and the task that have the log of a task: for a step of several tasks its own
    run, and None for all of its tasks."""
    if task is not None and (steps := recorded_steps(run.folder)):
        step = steps[chosen_task(run, task)]
        own = type(run)(run.folder.with_name(step.run))
        if is_step_of(own.folder, run.id) and own.record.tasks > 1:
            return own, None
    return run, task


def begun_steps(run: R) -> list[R]:
    """Returns the runs of its steps that have begun; none for a run without steps."""
    folders = [run.folder.with_name(each.run) for each in recorded_steps(run.folder)]
    return [type(run)(folder) for folder in folders if is_step_of(folder, run.id)]


def steps_to_begin(run: RunFolder) -> list[str]:
    """Returns its steps that no target has yet: a process that follows the run begins them."""
    return [
        step.name
        for index, step in enumerate(recorded_steps(run.folder))
        if not run.task_status(index).is_final
        and not is_step_of(run.folder.with_name(step.run), run.id)
    ]


def require_one_job(run: R) -> R:
    """Returns the run. Raises UserError for one of several steps."""
    if recorded_steps(run.folder):
        raise several_steps(run)
    return run


def several_steps(run: RunFolder) -> UserError:
    """Returns the error for a run of several steps, of which only one can be meant."""
    known = ", ".join(each.run for each in recorded_steps(run.folder))
    message = f"{run.id} is a run of several steps"
    return UserError.of("several-steps", message, f"name the run of one of them: {known}")
