"""Copies logs to a stream as they grow: one as it stands, several line by line with labels."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections import deque
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, BinaryIO

from fairway_agent.log_marks import begun, split_label
from fairway_agent.task_spec import LAST
from fairway_core.findings import UserError, printable
from fairway_runner.runs.log_lines import matching, require_labels, task_numbers
from fairway_runner.runs.store import FINAL_STATES

if TYPE_CHECKING:
    import re
    from collections.abc import Collection, Iterable, Iterator, Sequence
    from pathlib import Path

    from fairway_agent.task_state import TaskState
    from fairway_runner.runs.store import Run


_BLOCK = 1 << 16
# SGR parameters of ECMA-48: colours that can be read on black and on white.
_COLOURS = (b"36", b"33", b"35", b"32", b"34", b"31", b"96", b"93", b"95", b"92", b"94", b"91")


@dataclass(frozen=True)
class LineFilter:
    """Takes the lines of some ranks, or all, that hold a pattern, or all.

    Where a launcher has labelled a line with its rank, `named` begins it with that alone, and
    `coloured` does so in a colour of its own; where `ranks` are given it is left out, unless it
    is coloured.
    """

    ranks: Collection[int] | None = None
    grep: re.Pattern[str] | None = None
    coloured: bool = False
    named: bool = False

    @property
    def is_open(self) -> bool:
        """Whether all lines pass as they are."""
        shown_as_they_are = not self.coloured and not self.named
        return self.ranks is None and self.grep is None and shown_as_they_are

    def taken(self, lines: Iterable[tuple[int, bytes]]) -> Iterator[Line]:
        """Those of the lines, each with its attempt, that are to be shown; UserError where the
        pattern takes without end."""
        split = (Line(attempt, line, *split_label(line)) for attempt, line in lines)
        wanted = (each for each in split if self.ranks is None or each.rank in self.ranks)
        yield from matching(wanted, lambda line: line.text, self.grep)

    def shown(self, line: Line) -> tuple[int | None, bytes]:
        """The rank that is to be named before a line, and what is shown of it."""
        if line.rank is not None and (self.coloured or (self.named and self.ranks is None)):
            return line.rank, line.rest
        return None, line.rest if self.ranks is not None else line.whole


@dataclass(frozen=True)
class Line:
    """A line of a log as it stands: its attempt, from 1; the rank that it is labelled with, and the
    `rest` without that label."""

    attempt: int
    whole: bytes
    rank: int | None
    rest: bytes

    @property
    def text(self) -> str:
        """What was printed."""
        return self.rest.removesuffix(b"\r").decode("utf-8", "replace")


def label(name: str, number: int | None = None) -> bytes:
    """`[name] `, in the colour of a number if one is given."""
    if number is None:
        return f"[{name}] ".encode()
    return b"\x1b[%sm[%s]\x1b[0m " % (_COLOURS[number % len(_COLOURS)], name.encode())


def tail_offset(path: Path, lines: int) -> int:
    """Where in a log its last lines begin."""
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return 0
    with file:
        position = file.seek(0, 2)
        # The end of the last line is none before it.
        left = lines + 1 if _ends_a_line(path, position) else lines
        while position > 0:
            start = max(0, position - _BLOCK)
            file.seek(start)
            block = file.read(position - start)
            while (end := block.rfind(b"\n")) >= 0:
                left -= 1
                if left <= 0:
                    return start + end + 1
                block = block[:end]
            position = start
    return 0


def _ends_a_line(path: Path, size: int) -> bool:
    with path.open("rb") as file:
        file.seek(max(0, size - 1))
        return file.read(1) == b"\n"


_PAUSE = 0.5  # seconds between two looks at what another part of this program keeps up to date
_CHUNK = 1 << 20
_LONGEST_LINE = 1 << 20  # what is longer is shown as several lines


@dataclass
class Log:
    """One log of a run: its label, what of it was read, and of which attempt, from 1, that is;
    `cut` says that the last line which was shown as it stands has no end."""

    label: str
    path: Path
    offset: int = 0
    part: bytes = b""
    attempt: int = 1
    cut: bool = False

    def grown(self) -> bool:
        """Whether there is more than what was read."""
        try:
            return self.path.stat().st_size > self.offset
        except FileNotFoundError:
            return False

    def chunks(self) -> Iterator[bytes]:
        """What was written since the last call."""
        try:
            file = self.path.open("rb")
        except FileNotFoundError:
            return
        with file:
            file.seek(self.offset)
            while chunk := file.read(_CHUNK):
                self.offset += len(chunk)
                yield chunk

    def lines(self, *, ended: bool) -> Iterator[bytes]:
        """The whole lines written since the last call, without their ends; a last line without
        one comes when the log has ended."""
        for chunk in self.chunks():
            *lines, self.part = (self.part + chunk).split(b"\n")
            yield from lines
            if len(self.part) > _LONGEST_LINE:
                yield self.part
                self.part = b""
        if ended and self.part:
            yield self.part
            self.part = b""

    def of_attempt(self, wanted: int | None, lines: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
        """Those of the next lines that are of that attempt, or all, each with its attempt."""
        for line in lines:
            self.attempt = begun(line) or self.attempt
            if wanted is None or self.attempt == wanted:
                yield self.attempt, line


@dataclass
class Selection:
    """What is wanted of a run's logs: those of some tasks, some lines or all, those of one attempt,
    from 1, or of all, and of each log the last `tail` of them, or all. With `json` each line is a
    record; `whole` ends the last line, where another text follows."""

    tasks: Sequence[int] = ()
    lines: LineFilter = field(default_factory=LineFilter)
    tail: int | None = None
    attempt: int | None = None
    logs: list[Log] = field(default_factory=list)
    json: bool = False
    whole: bool = False

    @classmethod
    def of(
        cls,
        run: Run,
        task: str | int | None = None,
        lines: LineFilter | None = None,
        tail: int | None = None,
        attempt: int | None = None,
        *,
        json: bool = False,
    ) -> Selection:
        """UserError where the run has no such task, or its ranks cannot be told apart."""
        indices = task_numbers(run, task)
        logs = [Log(str(index), run.log(index)) for index in indices]
        if run.has_last and indices[-1] == run.record.tasks - 1:
            logs[-1].label = LAST
        if task is None and (run.folder / "setup.jsonl").exists():
            logs.insert(0, Log("setup", run.folder / "setup" / "log.txt"))
        lines = lines or LineFilter()
        if lines.ranks is not None:
            require_labels(run, [log.path for log in logs])
        return cls(indices, lines, tail, attempt, logs, json)

    @property
    def is_raw(self) -> bool:
        """Whether there is one log, to be shown as it stands."""
        is_one = len(self.logs) == 1 and not self.json
        return is_one and self.lines.is_open and self.attempt is None


@dataclass
class Remarks:
    """What a run that is followed waits for, and that its task begins again: each said once."""

    run: Run
    reason: str = ""
    attempt: int = 0
    why: str = ""

    def look(self) -> None:
        """Says what has changed since the last look."""
        status = self.run.status
        reason = status.reason or ""
        if reason and reason != self.reason:
            self._say(f"is {status.state}: {reason}")
        self.reason = reason
        if not self.run.is_sweep:
            self._look_at_task(self.run.task_status(0))

    def _look_at_task(self, task: TaskState) -> None:
        attempt = task.attempt or 0
        if attempt > self.attempt and task.state == "running":
            self._say(f"is at attempt {attempt + 1}{self.why and f': {self.why}'}")
            self.attempt, self.why = attempt, ""
        elif task.state == "queued":
            self.why = task.reason or ""

    def _say(self, words: str) -> None:
        print(printable(f"{self.run.id} {words}"), file=sys.stderr, flush=True)


@contextmanager
def remarked(run: Run) -> Iterator[None]:
    """Says the same as long as somebody else waits for the run, and brings its folder up to
    date."""
    remarks, done = Remarks(run), threading.Event()

    def look() -> None:
        while not done.wait(_PAUSE):
            with suppress(UserError, OSError):  # of a damaged file: who waits for it says so
                if run.state not in FINAL_STATES:
                    remarks.look()

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def copy_logs(
    run: Run, selection: Selection, out: BinaryIO, *, follow: bool, remarks: bool = True
) -> None:
    """Writes what the tasks have printed, as it is known here, and with `follow` what they print
    until the run ends: a target that is away for a while is borne.

    One log is copied byte by byte; lines of several are labelled with their task, `[3] `. With
    `remarks` standard error says why nothing comes.
    """
    remarked, tail = Remarks(run), selection.tail
    from fairway_runner.engines.outage import Absence  # it logs, which takes long to import

    absence = Absence(run, run.engine.deadline) if follow else None
    while True:
        # Asked before reading: what was printed by then is read below.
        if absence is not None:
            absence.look(lambda: run.follow(logs=True))
        ended = not follow or run.state in FINAL_STATES
        if remarks and not ended:
            remarked.look()
        began = time.monotonic()
        show_grown(selection, out, ended=ended, tail=tail)
        tail = None
        if ended:
            return
        # Looking at very many files takes a tenth of the time at most.
        time.sleep(max(run.engine.pause, 9 * (time.monotonic() - began)))


def show_grown(selection: Selection, out: BinaryIO, *, ended: bool, tail: int | None) -> None:
    """Writes what the logs have got since the last call, of each the last `tail` lines or all."""
    for log in selection.logs:
        if ended or log.grown():
            _copy(log, selection, out, ended=ended, tail=tail)
        if ended and selection.whole and log.cut:
            out.write(b"\n")
    out.flush()


def _copy(log: Log, selection: Selection, out: BinaryIO, *, ended: bool, tail: int | None) -> None:
    if selection.is_raw:
        if tail is not None:
            log.offset = tail_offset(log.path, tail)
        for chunk in log.chunks():
            out.write(chunk)
            log.cut = not chunk.endswith(b"\n")
        return
    lines = log.of_attempt(selection.attempt, log.lines(ended=ended))
    taken = selection.lines.taken(lines)
    for line in taken if tail is None else deque(taken, tail):
        if selection.json:
            out.write(_record(log, line))
            continue
        rank, shown = selection.lines.shown(line)
        out.write(_label(log, rank, selection) + shown.removesuffix(b"\r") + b"\n")


def _record(log: Log, line: Line) -> bytes:
    """A line as a record of its own: ASCII, which moves no terminal's cursor."""
    facts = {
        "task": int(log.label) if log.label.isdecimal() else log.label,
        "attempt": line.attempt,
        "rank": line.rank,
        "text": line.text,
    }
    return json.dumps(facts).encode("ascii") + b"\n"


def _label(log: Log, rank: int | None, selection: Selection) -> bytes:
    """What a line begins with: its task where there are several, and the rank that is named, as in
    `[3.1] `."""
    several = len(selection.logs) > 1
    names = [*([log.label] if several else []), *([] if rank is None else [str(rank)])]
    if not names:
        return b""
    colour = selection.logs.index(log) if rank is None else rank
    return label(".".join(names), colour if selection.lines.coloured else None)
