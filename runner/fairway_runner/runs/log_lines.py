"""The lines of a run's logs: of which task, attempt and rank each is, and which are wanted."""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

from fairway_agent import cpu_limit
from fairway_agent.log_marks import begun, split_label
from fairway_agent.record import FINAL_STATES
from fairway_core.findings import UserError
from fairway_runner.jobs.ranks import labels_ranks, ranks_of_node
from fairway_runner.runs.folder import chosen_task
from fairway_runner.runs.records import read_json, read_specs
from fairway_runner.runs.results import task_results

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from fairway_runner.runs.folder import RunFolder

T = TypeVar("T")

_BATCH = 1000  # lines that are searched under one limit of processor time
_BEGINNING = 1 << 20  # bytes of a log in which labels are looked for


@dataclass(frozen=True)
class LogLine:
    """A line of a log: the place in the run of the task that printed it, and in which attempt, from
    1; its rank, where the log names ranks; its text without that."""

    task: int
    attempt: int
    rank: int | None
    text: str


def log_lines(
    run: RunFolder,
    *,
    task: str | int | None = None,
    rank: int | None = None,
    attempt: int | None = None,
    grep: str | None = None,
    tail: int | None = None,
) -> list[LogLine]:
    """What a run has printed, as it is known here; see `Run.logs`."""
    if tail is not None and tail < 0:
        raise UserError.of("bad-value", f"tail: {tail} is below 0", "0 leaves all lines out")
    expression, tasks = pattern(grep), task_numbers(run, task)
    ranks = ranks_wanted(run, task, rank)
    if ranks is not None:
        require_labels(run, [run.log(each) for each in tasks])
    if attempt is not None:
        require_attempt(run, tasks, attempt)
    found: list[LogLine] = []
    for number in tasks:
        wanted = (
            line
            for line in _lines(run.log(number), number)
            if (attempt is None or line.attempt == attempt)
            and (ranks is None or line.rank in ranks)
        )
        lines = matching(wanted, lambda line: line.text, expression)
        found += lines if tail is None else deque(lines, tail)
    return found


def _lines(log: Path, task: int) -> Iterator[LogLine]:
    """All lines of a log, in order."""
    attempt = 1
    try:
        file = log.open("rb")
    except FileNotFoundError:
        return
    with file:
        for line in file:
            whole = line.removesuffix(b"\n").removesuffix(b"\r")
            attempt = begun(whole) or attempt
            rank, text = split_label(whole)
            yield LogLine(task, attempt, rank, text.decode("utf-8", "replace"))


def pattern(text: str | None) -> re.Pattern[str] | None:
    """A regular expression that a person gave; UserError where it is none."""
    if text is None:
        return None
    try:
        return re.compile(text)
    except (re.error, RecursionError, OverflowError) as error:
        message = f"--grep: `{text[:60]}` is not a regular expression: {error}"
        raise UserError.of("bad-value", message, r"write \[ and \( for [ and (") from None


def matching(
    items: Iterable[T], text_of: Callable[[T], str], expression: re.Pattern[str] | None
) -> Iterator[T]:
    """Those whose text holds the pattern, or all; UserError where it takes without end."""
    if expression is None:
        yield from items
        return
    rest = iter(items)
    while batch := list(islice(rest, _BATCH)):
        try:
            with cpu_limit.cpu_limit():
                found = [each for each in batch if expression.search(text_of(each))]
        except cpu_limit.OverLimit:
            message = (
                f"--grep was stopped after {cpu_limit.CPU_LIMIT:g} s of processor time: "
                f"{expression.pattern}"
            )
            hint = "avoid nested repetition: write (a+) for ((?:a+)+)"
            raise UserError.of("slow-pattern", message, hint) from None
        yield from found


def task_numbers(run: RunFolder, task: str | int | None) -> Sequence[int]:
    """The places of that task alone, or of all; UserError where the run has no such task."""
    return range(run.record.tasks) if task is None else [chosen_task(run, task)]


def ranks_wanted(
    run: RunFolder, task: str | int | None, rank: int | None, node: int | None = None
) -> Collection[int] | None:
    """The ranks that are asked for; None is all of them. UserError for one that is not there."""
    if rank is None and node is None:
        return None
    spec = task_results(run)[0 if task is None else chosen_task(run, task)]
    whole = Whole(run.id, run.record.tasks, spec.nodes, spec.processes_per_node)
    return whole.ranks(rank, node)


@dataclass(frozen=True)
class Whole:
    """A run whose ranks are asked for: its tasks, and of each of these nodes and processes."""

    run_id: str
    tasks: int
    nodes: int
    processes_per_node: int

    def ranks(self, rank: int | None, node: int | None) -> Collection[int] | None:
        """Those that are asked for; None is all of them. UserError for one that is not there."""
        count = self.nodes * self.processes_per_node
        if rank is not None and not 0 <= rank < count:
            message = f"{self.run_id} has no rank {rank}"
            raise UserError.of("unknown-rank", message, f"its ranks are 0 to {count - 1}")
        if node is not None and node >= self.nodes:
            message = f"{self.run_id} has no node {node}"
            raise UserError.of("unknown-node", message, f"its nodes are 0 to {self.nodes - 1}")
        if count == 1 and self.tasks == 1:
            return None  # all of it is of rank 0
        if node is None:
            return None if rank is None else {rank}
        ranks = set(ranks_of_node(node, self.processes_per_node))
        return ranks if rank is None else ranks & {rank}


def names_ranks(run: RunFolder) -> bool:
    """Whether the run's job asked for labels, or its launcher sets them by itself."""
    asked = _asked(run)
    if asked is not None:
        return asked
    try:
        first = next(read_specs(run.folder / "tasks.jsonl"), None)
    except (UserError, OSError):
        return False
    return first is not None and labels_ranks(first.script)


def _asked(run: RunFolder) -> bool | None:
    """What the job says of labels; None where it says nothing."""
    try:
        asked = read_json(run.folder / "job.json").get("options", {}).get("label_ranks")
    except (UserError, OSError):
        return False
    return asked if isinstance(asked, bool) else None


def require_labels(run: RunFolder, logs: Iterable[Path]) -> None:
    """UserError where neither the job asked for labels nor any line has one. Of a launcher that
    labels by itself where it can, that is known when the run has ended."""
    if _asked(run) or (names_ranks(run) and run.state not in FINAL_STATES):
        return
    require_labelled(run.id, logs)


def require_labelled(run_id: str, logs: Iterable[Path]) -> None:
    """UserError where no line of them has a label."""
    if any(map(_is_labelled, logs)):
        return
    message = f"the log of {run_id} does not say which rank printed a line"
    hint = (
        "submit the job with -s options.label_ranks=true where `fairway templates LAUNCHER` has "
        "that option; with another launcher let the program print its rank"
    )
    raise UserError.of("unlabelled-ranks", message, hint)


def _is_labelled(log: Path) -> bool:
    try:
        with log.open("rb") as file:
            beginning = file.read(_BEGINNING)
    except FileNotFoundError:
        return False
    return any(split_label(line)[0] is not None for line in beginning.split(b"\n"))


def require_attempt(run: RunFolder, tasks: Sequence[int], attempt: int) -> None:
    """UserError where none of the tasks has this attempt, from 1, or a log does not say where it
    begins and ends, as those of an earlier release do not."""
    counts = {task: run.task_status(task).attempts for task in tasks}
    require_attempt_of(run.id, counts, {task: run.log(task) for task in tasks}, attempt)


def require_attempt_of(
    run_id: str, counts: Mapping[T, int], logs: Mapping[T, Path], attempt: int
) -> None:
    """The same of tasks of which the numbers of attempts, and the logs, are known."""
    most = max(counts.values(), default=0)
    if not 0 < attempt <= most:
        known = "its only attempt is 1" if most == 1 else f"its attempts are 1 to {most}"
        hint = known if most else "none has begun yet"
        raise UserError.of("unknown-attempt", f"{run_id} has no attempt {attempt}", hint)
    for task, count in counts.items():
        wanted = {attempt, attempt + 1} - {1, count + 1}
        if attempt <= count and wanted and not wanted <= _begun(logs[task]):
            message = f"the log of task {task} of {run_id} does not show where its attempts begin"
            hint = "an earlier release wrote it; leave --attempt out"
            raise UserError.of("unmarked-attempts", message, hint)


def _begun(log: Path) -> set[int]:
    """The attempts, from 1, that a log says to begin."""
    try:
        with log.open("rb") as lines:
            return {attempt for line in lines if (attempt := begun(line)) is not None}
    except FileNotFoundError:
        return set()
