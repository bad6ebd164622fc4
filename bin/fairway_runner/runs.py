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
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairway_core.findings import UserError
from fairway_core.spelling import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

FINAL_STATES = frozenset({"succeeded", "failed", "cancelled", "lost"})

# Letters and digits that cannot be taken for one another when read aloud.
_ALPHABET = "23456789abcdefghjkmnpqrstuvwxyz"


@dataclass(frozen=True)
class RunRecord:
    """What was submitted; `created` is in seconds since 1970."""

    id: str
    name: str
    target: str
    created: float
    tasks: int
    job_file: str
    fairway: str


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
        return RunRecord(**_read_json(self.folder / "run.json"))

    @property
    def status(self) -> dict[str, Any]:
        """The last recorded state, with `state` set to lost where nobody watches any more."""
        status = self._recorded()
        if status["state"] in FINAL_STATES or self._is_watched():
            return status
        # It may have ended between the two looks.
        status = self._recorded()
        return status if status["state"] in FINAL_STATES else {**status, "state": "lost"}

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

    def task_status(self, index: int, *, lost: bool = False) -> dict[str, Any]:
        """A task's recorded state; `lost` says that the run is, and with it what was running."""
        try:
            status = _read_json(self.task_folder(index) / "state.json")
        except FileNotFoundError:
            status = {"state": "queued"}
        if lost and status["state"] not in FINAL_STATES:
            status["state"] = "lost"
        return status

    @property
    def exit_code(self) -> int:
        """The job's own code: 0, or that of the first task that did not succeed; 130 and 5
        where a run was cancelled or lost before a task had one."""
        state = self.state
        if state == "succeeded":
            return 0
        if state == "cancelled":
            return 130
        for index in range(self.record.tasks):
            code = self.task_status(index).get("exit_code", 0)
            if code:
                return int(code)
        return 5

    def wait(self) -> None:
        """Returns when nobody watches over the run any more: it has ended, or is lost."""
        with (self.folder / "lock").open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH)

    def _recorded(self) -> dict[str, Any]:
        return _read_json(self.folder / "state.json")

    def _is_watched(self) -> bool:
        with (self.folder / "lock").open("rb") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
        return False


@dataclass(frozen=True)
class RunStore:
    """The runs of one folder, by default the current one."""

    base: Path

    @classmethod
    def here(cls) -> RunStore:
        """The store of the current folder."""
        return cls(Path.cwd() / ".fairway")

    @property
    def folder(self) -> Path:
        """Where the runs' folders lie."""
        return self.base / "runs"

    def create(self, record: RunRecord, files: Mapping[str, str]) -> tuple[Run, int]:
        """Makes a run's folder as a whole, with its lock taken.

        `files` are texts by their path in the folder. Returns the run and the open
        descriptor that holds its lock.
        """
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
        return sorted(self._iterate(), key=lambda run: run.record.created)

    def find(self, text: str) -> Run:
        """The run with that id, or the only one whose id begins so; UserError otherwise."""
        known = [run.id for run in self._iterate()]
        if text in known:
            return Run(self.folder / text)
        matches = sorted(run_id for run_id in known if text and run_id.startswith(text))
        if len(matches) == 1:
            return Run(self.folder / matches[0])
        if matches:
            listed = ", ".join(matches[:8]) + (", …" if len(matches) > 8 else "")
            message = f"`{text}` is the beginning of {len(matches)} runs' ids"
            raise UserError.of("ambiguous-run", message, f"say more of it: {listed}")
        mend = did_you_mean(text, known) if known else "no run was submitted from this folder yet"
        raise UserError.of("unknown-run", f"there is no run `{text}` in {self.base}", mend)

    def _iterate(self) -> Iterator[Run]:
        if not self.folder.is_dir():
            return
        for entry in os.scandir(self.folder):
            if not entry.name.startswith("."):
                yield Run(Path(entry.path))


def _read_json(path: Path) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return value
