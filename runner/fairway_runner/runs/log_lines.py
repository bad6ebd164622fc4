"""Lines of a run's logs, with their task, attempt and rank, and selections of them.

A reader continues where it stopped, so that it can follow a growing log.
"""

from __future__ import annotations

import codecs
import io
import os
import re
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path

from fairway_agent import process_limits
from fairway_agent.quick import dataclass
from fairway_agent.state_files import FINAL_STATES, TaskState
from fairway_agent.task_logs import attempt_begun, split_label
from fairway_core.findings import UserError
from fairway_runner.runs.folder import RunFolder, chosen_task, require_one_job
from fairway_runner.runs.records import launcher_options, read_specs

LABELS = re.compile(r"^label_ranks(?:\(\) \{|=\()", re.MULTILINE)
"""Function or variable that labels the output of ranks in a launcher's script."""
_BATCH = 1000  # lines that are searched within one limit of processor time
_BEGINNING = 1 << 20  # bytes at the start of a log that are searched for labels
_PIECE = 1 << 20  # bytes that are read at once; a longer line is split


@dataclass(frozen=True)
class Line:
    """An unchanged line of a log, with its end if it has one: its attempt, from 1; its rank label,
    and the `rest` without that label."""

    attempt: int
    full: bytes
    rank: int | None
    rest: bytes

    @property
    def text(self) -> str:
        """Printed text."""
        return self.rest.removesuffix(b"\n").removesuffix(b"\r").decode("utf-8", "replace")


@dataclass
class LogFile:
    """One log of a run: its task's name, how far it was read, and its current attempt, from 1. The
    task's `status` knows where attempts begin: a program may print such lines too."""

    name: str
    path: Path
    offset: int = 0
    attempt: int = 1
    status: Callable[[], TaskState | None] | None = None
    unsure: int = -1
    """Offset of the last line that was left for the next look: it may begin an attempt."""

    def has_grown(self) -> bool:
        """Returns True if the file has unread bytes."""
        try:
            return self.path.stat().st_size > self.offset
        except FileNotFoundError:
            return False

    def read(self, most: int = _PIECE) -> bytes:
        """Returns the next bytes, at most as many as asked for."""
        try:
            file = self.path.open("rb")
        except FileNotFoundError:
            self.offset = 0
            return b""
        with file:
            self.offset = min(self.offset, os.fstat(file.fileno()).st_size)
            file.seek(self.offset)
            data = file.read(most)
        self.offset += len(data)
        return data

    def piece(self, most: int = _PIECE, *, ended: bool, longest: int = 0) -> Iterator[Line]:
        """Yields the next complete lines, `most` bytes at most, or `longest` if the first has more;
        also an unterminated one at the end of an `ended` log, and the start, in whole characters,
        of one that is longer than that."""
        data = self.read(most)
        if len(data) == most < longest and b"\n" not in data:
            data, most = data + self.read(longest - most), longest
        end = data.rfind(b"\n") + 1
        if ended and len(data) < most:
            end = len(data)
        elif not end and len(data) == most:
            decoder = codecs.getincrementaldecoder("utf-8")("replace")
            decoder.decode(data)
            end = len(data) - len(decoder.getstate()[0])
        position = self.offset - len(data)
        self.offset -= len(data) - end
        for line in io.BytesIO(data[:end]):
            number = attempt_begun(line)
            if number is not None and number > self.attempt:
                begins = self._begins(number, position)
                if begins is None and not ended and position != self.unsure:
                    self.unsure = self.offset = position
                    return
                self.attempt = number if begins else self.attempt
            position += len(line)
            yield Line(self.attempt, line, *split_label(line))

    def _begins(self, number: int, position: int) -> bool | None:
        """Returns True if an attempt begins with the line at a position; None if the state of the
        task may be older than the line."""
        status = self.status() if self.status is not None else None
        if status is None or (status.state == "queued" and number == status.attempts + 1):
            return True
        begins = status.begins or ()
        if number <= len(begins) + 1:
            return begins[number - 2] == position
        return None if status.state == "running" and number == status.attempts + 1 else False

    def lines(self, *, ended: bool) -> Iterator[Line]:
        """Yields all lines written since the last call."""
        unsure = self.unsure
        while unsure == self.unsure and (lines := list(self.piece(ended=ended))):
            yield from lines


@dataclass
class Selection:
    """Some logs of a run, and the selected lines: those of some ranks, of one attempt, from 1,
    those that match a pattern, and of each log the last `tail` of them; None selects all."""

    logs: Sequence[LogFile]
    ranks: Collection[int] | None = None
    attempt: int | None = None
    grep: re.Pattern[str] | None = None
    tail: int | None = None

    @property
    def is_one_log(self) -> bool:
        """True if there is only one log, and all its lines are selected."""
        limits = (self.ranks, self.attempt, self.grep)
        return len(self.logs) == 1 and all(each is None for each in limits)

    def taken(self, lines: Iterable[Line]) -> Iterable[Line]:
        """Returns the selected lines of a log. Raises UserError for a pattern that is too slow."""
        wanted = (
            line
            for line in lines
            if (self.attempt is None or line.attempt == self.attempt)
            and (self.ranks is None or line.rank in self.ranks)
        )
        found = wanted if self.grep is None else _matching(wanted, self.grep)
        return found if self.tail is None else deque(found, self.tail)


def logs_of(
    run: RunFolder, task: str | int | None = None, ranks: Collection[int] | None = None
) -> list[LogFile]:
    """Returns the logs of one task or `setup`, or of all tasks and the setup. Raises UserError for
    an unknown task, or if ranks are asked for and the logs do not name them."""
    has_setup = (run.folder / "setup.jsonl").exists()
    numbers = () if has_setup and task == "setup" else task_numbers(run, task)
    logs = [
        LogFile(run.task_name(number), run.log(number), status=partial(run.task_status, number))
        for number in numbers
    ]
    if has_setup and task in (None, "setup"):
        path = run.folder / "setup" / "log.txt"
        logs.insert(0, LogFile("setup", path, status=run.setup_status))
    if ranks is not None:
        require_labels(run, [log.path for log in logs])
    return logs


@dataclass(frozen=True)
class LogLine:
    """A line of a log: the index of its task in the run, and its attempt, from 1; its rank, if the
    log names ranks; its text without that."""

    task: int
    attempt: int
    rank: int | None
    text: str


def pattern(text: str | None, option: str = "grep") -> re.Pattern[str] | None:
    """Compiles a user's regular expression. Raises UserError, which names the option, if it is
    invalid."""
    if text is None:
        return None
    try:
        return re.compile(text)
    except (re.error, RecursionError, OverflowError) as error:
        message = f"{option}: `{text[:60]}` is not a regular expression: {error}"
        raise UserError.of("bad-value", message, r"write \[ and \( for [ and (") from None


def _matching(lines: Iterable[Line], expression: re.Pattern[str]) -> Iterator[Line]:
    rest = iter(lines)
    while batch := list(islice(rest, _BATCH)):
        try:
            with process_limits.cpu_limit():
                found = [each for each in batch if expression.search(each.text)]
        except process_limits.OverLimit:
            limit = f"{process_limits.CPU_LIMIT:g} s of processor time"
            message = f"`{expression.pattern}` was stopped after {limit}"
            hint = "avoid nested repetition: write (a+) for ((?:a+)+)"
            raise UserError.of("slow-pattern", message, hint) from None
        yield from found


def task_numbers(run: RunFolder, task: str | int | None) -> Sequence[int]:
    """Returns the index of that task alone, or of all. Raises UserError for an unknown one."""
    return range(run.record.tasks) if task is None else [chosen_task(run, task)]


def ranks_wanted(
    run: RunFolder, task: str | int | None, rank: int | None, node: int | None = None
) -> Collection[int] | None:
    """Returns the requested ranks, or None for all. Raises UserError for an unknown one."""
    if rank is None and node is None:
        return None
    from fairway_runner.runs.results import task_results  # usually all ranks are shown

    require_one_job(run)
    each = task_results(run)[0 if task is None else chosen_task(run, task)]
    each.require_place(rank, node)
    count = each.world_size
    if count == 1 and run.record.tasks == 1:
        return None  # everything is rank 0's
    # Launchers fill one node after another.
    width = each.processes_per_node
    ranks = range(count) if node is None else range(node * width, (node + 1) * width)
    return {each for each in ranks if rank in (None, each)}


def names_ranks(run: RunFolder) -> bool:
    """Returns True if the run's job asked for labels, or its launcher sets them by itself."""
    asked = _asked(run)
    if asked is not None:
        return asked
    try:
        first = next(read_specs(run.folder / "tasks.jsonl"), None)
    except (UserError, OSError):
        return False
    return first is not None and LABELS.search(first.script) is not None


def _asked(run: RunFolder) -> bool | None:
    asked = launcher_options(run.folder).get("label_ranks")
    return asked if isinstance(asked, bool) else None


def require_labels(run: RunFolder, logs: Iterable[Path]) -> None:
    """Raises UserError if neither the job asked for labels nor any line has one. For a launcher
    that labels by itself if it can, that is known when the run has ended."""
    if _asked(run) or (names_ranks(run) and run.state not in FINAL_STATES):
        return
    for log in logs:
        beginning = LogFile("", log).read(_BEGINNING)
        if any(split_label(line)[0] is not None for line in beginning.split(b"\n")):
            return
    message = f"the log of {run.id} does not say which rank printed a line"
    hint = (
        "submit the job with -s options.label_ranks=true where `fairway templates LAUNCHER` has "
        "that option; with another launcher let the program print its rank"
    )
    raise UserError.of("unlabelled-ranks", message, hint)


def require_attempt(run: RunFolder, tasks: Sequence[int], attempt: int) -> None:
    """Raises UserError if no task has this attempt, from 1."""
    most = max((run.task_status(task).attempts for task in tasks), default=0)
    if not 0 < attempt <= most:
        known = "its only attempt is 1" if most == 1 else f"its attempts are 1 to {most}"
        hint = known if most else "none has begun yet"
        raise UserError.of("unknown-attempt", f"{run.id} has no attempt {attempt}", hint)
