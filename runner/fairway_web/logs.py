"""Logs of tasks: as text, and as events that go on where a reader left off.

Several logs are read as one: a line begins with its task, and where a launcher names ranks with its
rank, as in `[3.1] loss 0.5`, as `fairway logs` has it.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import anyio

from fairway_agent.log_marks import split_label
from fairway_core.findings import UserError
from fairway_runner.runs.folder import chosen_task, task_name
from fairway_runner.runs.log_lines import ranks_wanted, require_labels
from fairway_web.threads import reading

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence
    from pathlib import Path

    from fairway_agent.run_state import RunState
    from fairway_runner.runs.store import Run

ALL = "all"
"""In place of a task: all of them."""
MOST = 256 << 10  # bytes of logs that are sent at once
MOST_LOGS = 64  # that are read as one
_PAUSE = 0.1  # seconds between two looks at a file that somebody follows
_SILENCE = 15.0  # seconds after which a comment tells that we are still here
# Colours and cursor movements of terminals.
_CONTROL = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
_UNPRINTED = {c: None for c in [*range(32), 127, *range(128, 160)] if c not in (9, 10)}


class Part(NamedTuple):
    """A piece of a log, and the offset in bytes behind it."""

    text: str
    end: int


class Parts(NamedTuple):
    """A piece of each of some logs, and the offsets behind them."""

    text: str
    ends: tuple[int, ...]

    @property
    def offsets(self) -> str:
        """The offsets as one word, with which a reader goes on."""
        return "-".join(map(str, self.ends))


@dataclass(frozen=True)
class Logs:
    """The logs that somebody reads as one, each with what its lines begin with; of the lines those
    of one rank, or all."""

    files: Sequence[tuple[str, Path]]
    rank: int | None = None

    @classmethod
    def of(cls, run: Run, task: str, rank: str = "") -> Logs:
        """The logs of one task or of all; UserError for an unknown one, and for too many."""
        if task != ALL:
            files = [("", log_of(run, task))]
        elif run.record.tasks > MOST_LOGS:
            message = f"{run.id} has {run.record.tasks:,} tasks: too many to read them as one"
            hint = f"read one of them; at most {MOST_LOGS} are read as one"
            raise UserError.of("too-many-logs", message, hint)
        else:
            files = [(task_name(run, i), run.log(i)) for i in range(run.record.tasks)]
        wanted = _rank(run, task, rank) if rank else None
        if wanted is not None:
            require_labels(run, [path for _, path in files])
        return cls(files, wanted)

    def starts(self, offsets: str) -> tuple[int, ...]:
        """The offsets that a word says, all 0 for none; UserError where it says others."""
        numbers = offsets.split("-") if offsets else []
        if all(_NUMBER.fullmatch(each) for each in numbers):
            if len(numbers) == len(self.files):
                return tuple(map(int, numbers))
            if not any(map(int, numbers)):
                return (0,) * len(self.files)
        message = "`from` is not an offset in bytes"
        hint = "start at 0; continue with `Next-Offset` of the previous answer"
        raise UserError.of("bad-value", message, hint)

    def parts(self, starts: Sequence[int], *, ended: bool = False) -> Parts:
        """Whole lines from these offsets on; see `part`."""
        found = [
            part(path, start, self._begins(name), ended=ended, most=MOST // len(self.files))
            for (name, path), start in zip(self.files, starts, strict=True)
        ]
        return Parts("".join(each.text for each in found), tuple(each.end for each in found))

    def last_parts(self, *, ended: bool) -> Parts:
        """The end of each, from the beginning of a line on."""
        most = MOST // len(self.files)
        found = [last_part(path, self._begins(n), ended=ended, most=most) for n, path in self.files]
        return Parts("".join(each.text for each in found), tuple(each.end for each in found))

    def _begins(self, name: str) -> Label:
        return Label(name, self.rank)


_NUMBER = re.compile(r"[0-9]{1,15}", re.ASCII)


def _rank(run: Run, task: str, rank: str) -> int | None:
    """The rank that is asked for, None where the task has no other."""
    if not _NUMBER.fullmatch(rank):
        raise UserError.of("bad-value", "`rank` is not a number", "0 is the first")
    chosen = None if task == ALL else task
    return int(rank) if ranks_wanted(run, chosen, int(rank)) is not None else None


class Label(NamedTuple):
    """The label of a line, its task; and the rank of which lines are wanted."""

    task: str = ""
    rank: int | None = None

    def shown(self, data: bytes) -> bytes:
        """The lines that are wanted, each with its task and rank where these are to be told."""
        if not self.task and self.rank is None and b"]<std" not in data:
            return data
        lines = data.split(b"\n")
        rest = [] if lines[-1] else [lines.pop()]
        kept = [each for line in lines if (each := self._line(line)) is not None]
        return b"\n".join([*kept, *rest]) if kept else b""

    def _line(self, line: bytes) -> bytes | None:
        rank, text = split_label(line)
        if self.rank is not None and rank != self.rank:
            return None
        named = rank is not None and self.rank is None
        names = [*([self.task] if self.task else []), *([str(rank)] if named else [])]
        return f"[{'.'.join(names)}] ".encode() + text if names else text


def log_of(run: Run, task: str) -> Path:
    """The log of one task, by its number, or of `setup` or `finally`; UserError where the run has
    no such task."""
    if task == "setup" and (run.folder / "setup.jsonl").exists():
        return run.folder / "setup" / "log.txt"
    return run.log(chosen_task(run, task))


def plain(text: str) -> str:
    """The text that a terminal would show in the end: no colours, and of a line that was written
    over its last state."""
    lines = _CONTROL.sub("", text).replace("\r\n", "\n").split("\n")
    return "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in lines).translate(_UNPRINTED)


def part(
    path: Path, start: int, label: Label | None = None, *, ended: bool = False, most: int = 0
) -> Part:
    """Whole lines from an offset on, at most `most` bytes, MOST for 0; a line without an end where
    the log has ended, or where it is longer than that."""
    most = most or MOST
    try:
        with path.open("rb") as file:
            start = min(max(0, start), os.fstat(file.fileno()).st_size)
            file.seek(start)
            data = file.read(most)
    except FileNotFoundError:
        return Part("", 0)
    is_all = ended and len(data) < most
    end = len(data) if is_all else data.rfind(b"\n") + 1
    if not end and len(data) == most:
        end = len(data)
    shown = (label or Label()).shown(data[:end])
    text = plain(shown.decode("utf-8", "replace"))
    if label is not None and label.task and text and not text.endswith("\n"):
        text += "\n"  # the line of another task follows
    return Part(text, start + end)


def raw_part(path: Path, start: int) -> tuple[bytes, int]:
    """Bytes of a log from an offset on, at most MOST, and the offset behind them."""
    try:
        with path.open("rb") as file:
            start = min(max(0, start), os.fstat(file.fileno()).st_size)
            file.seek(start)
            data = file.read(MOST)
    except FileNotFoundError:
        return b"", 0
    return data, start + len(data)


def last_part(path: Path, label: Label | None = None, *, ended: bool, most: int = 0) -> Part:
    """The end of a log, from the beginning of a line on."""
    most = most or MOST
    try:
        size = path.stat().st_size
    except FileNotFoundError:
        return Part("", 0)
    if size <= most:
        return part(path, 0, label, ended=ended, most=most)
    found = part(path, size - most, label, ended=ended, most=most)
    _, end, rest = found.text.partition("\n")
    return Part(rest if end else found.text, found.end)  # a progress bar may never end its line


async def follow(
    run: Run, logs: Logs, starts: Sequence[int], watch: Callable[[str], None]
) -> AsyncIterator[str]:
    """The logs as server-sent events, each with the offsets behind it as its id, until the run has
    ended; the last event is `end` with the run's state. `watch` is told at each look that somebody
    reads what the run prints."""
    silent, ends = 0.0, tuple(starts)
    while True:
        watch(run.id)
        try:
            state, found = await reading(_look, run, logs, ends)
        except (UserError, OSError):
            return  # the next request is told what is wrong with the run
        if any(now > before for now, before in zip(found.ends, ends, strict=True)):
            ends, silent = found.ends, 0.0
            yield f"id: {found.offsets}\ndata: {json.dumps(found.text)}\n\n"
            continue
        if state.is_final:
            yield f"event: end\nid: {found.offsets}\ndata: {json.dumps(state.state)}\n\n"
            return
        await anyio.sleep(_PAUSE)
        silent += _PAUSE
        if silent >= _SILENCE:
            silent = 0.0
            yield ": still here\n\n"


def _look(run: Run, logs: Logs, starts: Sequence[int]) -> tuple[RunState, Parts]:
    # The state is read first: what was printed before the end is there by then.
    state = run.status
    return state, logs.parts(starts, ended=state.is_final)
