"""The targets of a run that may go to several: those that it was tried on, and those that are left.

They stand in the file `fallback.json` of its folder, and its files for each target that is left
under `targets/NAME/`. A command that moves a run to its next target writes each step before it is
done, so that another command goes on where it was killed:

starting     its files are those of the last try, whose target may not have all of it
on           that target has it
leaving      it is to leave: there it is being cancelled
left         it has ended there: what is left of it goes, and its files for the next target come
settled      it has begun, or no target is left: it stays
"""

from __future__ import annotations

import json
import os
import re
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

from fairway_agent import record
from fairway_agent.fields import Fields, Unfit
from fairway_agent.run_state import RunState
from fairway_runner.runs.records import damaged, read_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

FILE = "fallback.json"
LOCK = "fallback.lock"
# The files of a run that each target has of its own.
FILES = (
    *("run.json", "job.json", "target.json", "plan.json"),
    *("tasks.jsonl", "setup.jsonl", "release.jsonl", "finally.jsonl"),
)
_PHASES = ("starting", "on", "leaving", "left", "settled")
# On the way from one target to the next what a target has said last does not hold.
_BETWEEN = ("leaving", "left")


@dataclass(frozen=True)
class Try:
    """A target that the run was tried on: since when and until when, in seconds since 1970, and
    why it did not stay there."""

    target: str
    began: float
    ended: float | None = None
    reason: str | None = None


@dataclass(frozen=True)
class Fallback:
    """Where a run is on its way: the tries, of which the last is where it is now; the targets that
    are `left`; for how many seconds it waits on each. `submitted` tells submissions apart.
    `cancelled` says that a person wants it to end: it goes nowhere any more."""

    phase: str
    tries: tuple[Try, ...]
    left: tuple[str, ...]
    patience: float | None = None
    submitted: str = ""
    cancelled: bool = False

    @property
    def is_open(self) -> bool:
        """Whether the run may still go to another target, or is on its way there."""
        return self.phase != "settled"

    @property
    def is_between(self) -> bool:
        """Whether it leaves a target, or has left it."""
        return self.phase in _BETWEEN

    def leaves(self, phase: str, reason: str, now: float) -> Fallback:
        """The run is to go, or has gone, from where it is."""
        tried = replace(self.tries[-1], ended=now, reason=reason)
        return replace(self, phase=phase, tries=(*self.tries[:-1], tried))

    def arrives(self, now: float) -> Fallback:
        """The run is on the next target."""
        tries = (*self.tries, Try(self.left[0], now))
        return replace(self, phase="starting", tries=tries, left=self.left[1:])

    def text(self) -> str:
        """As the file has it."""
        return json.dumps(asdict(self))

    def write(self, folder: Path) -> None:
        """Replaces the file as a whole."""
        record.write_bytes(folder / FILE, self.text().encode(), durable=True)


def read(folder: Path) -> Fallback | None:
    """That of a run; None where it was submitted to one target. UserError where the file is
    damaged."""
    path = folder / FILE
    try:
        return _parsed(read_json(path))
    except FileNotFoundError:
        return None
    except Unfit as error:
        raise damaged(path, str(error)) from None


def _parsed(facts: object) -> Fallback:
    fields = Fields(facts, "the fallback")
    tries = tuple(_try(each) for each in fields.each("tries"))
    left = fields.texts("left")
    if fields.text("phase") not in _PHASES:
        raise fields.unfit("phase")
    # They are names of folders too.
    if not all(re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}", name) for name in left):
        raise fields.unfit("left")
    if fields.text("phase") in _BETWEEN and not left:
        raise fields.unfit("left")
    if not tries:
        raise fields.unfit("tries")
    patience, submitted = fields.span_or_none("patience"), fields.text("submitted")
    cancelled = fields.flag("cancelled")
    return Fallback(fields.text("phase"), tries, left, patience, submitted, cancelled)


def _try(facts: object) -> Try:
    fields = Fields(facts, "a try")
    began = fields.moment_or_none("began")
    if began is None:
        raise fields.unfit("began")
    ended, reason = fields.moment_or_none("ended"), fields.text_or_none("reason")
    return Try(fields.text("target"), began, ended, reason)


def next_file(target: str, name: str) -> str:
    """The path in a run's folder of one of its files for a target that is left."""
    return f"targets/{target}/{name}"


def is_open(folder: Path) -> bool:
    """Whether a run may still go to another target."""
    found = read(folder)
    return found is not None and found.is_open


def under_way(folder: Path, status: RunState) -> RunState:
    """Where a run stands that goes on, or was cancelled, on a target: on its way where it goes to
    another, and to be cancelled where a person wants that."""
    found = read(folder)
    if found is None or not found.is_open:
        return status
    if found.cancelled:
        return (
            status
            if status.is_final
            else replace(status, reason=to_be_cancelled(found, folder.name))
        )
    if not found.is_between or status.state != "cancelled":
        return status
    return RunState(reason=on_its_way(found, folder.name), submission=status.submission)


def on_its_way(found: Fallback, run: str) -> str:
    """What is said of a run between two targets, which no command may be taking on."""
    where = f"it is moving from {found.tries[-1].target} to {found.left[0]}"
    return f"{where}; continue with: fairway wait {run}"


def to_be_cancelled(found: Fallback, run: str) -> str:
    """What is said of a run that a person wants to end, whose target has not been told."""
    return f"it is to be cancelled on {found.tries[-1].target}; continue with: fairway cancel {run}"


@contextmanager
def moving(folder: Path, *, wait: bool = False) -> Iterator[bool]:
    """Whether the caller alone may move the run meanwhile: not where another command does, for
    which `wait` waits."""
    if wait:
        with record.alone(folder / LOCK):
            yield True
        return
    with _locked(folder) as held:
        yield held


@contextmanager
def staying(folder: Path) -> Iterator[bool]:
    """Whether the run stays on its target meanwhile: not where a command moves it, or was killed
    while it did."""
    if not (folder / FILE).exists():
        yield True
        return
    with _locked(folder, shared=True) as held:
        found = read(folder) if held else None
        yield held and (found is None or not found.is_between)


@contextmanager
def _locked(folder: Path, *, shared: bool = False) -> Iterator[bool]:
    lock = record.try_lock(folder / LOCK, shared=shared)
    try:
        yield lock is not None
    finally:
        if lock is not None:
            os.close(lock)


def submitted(files: Mapping[str, str]) -> str:
    """What tells a submission to several targets apart, among the files of a run; "" of one to one
    target."""
    return str(json.loads(files[FILE])["submitted"]) if FILE in files else ""
