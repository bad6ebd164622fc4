"""When a task printed the values of its metrics, by the note of when its log grew."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairway_agent.log_times import FILE, read
from fairway_agent.metric_logs import next_line
from fairway_runner.runs.metrics import compile_patterns, metric_log

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fairway_runner.runs.results import TaskResult

_MOST = 300  # pieces of a log that are looked at
_BUDGET = 16 << 20  # bytes that are read of all of them

Points = list[tuple[float, float]]


def timed(task: TaskResult) -> dict[str, Points]:
    """By the name of each metric its values, each with the seconds since the task began; empty
    where nobody noted when it printed them.

    A note says what the log had at a moment: the values between two are spread evenly.
    """
    log = task.run.log(task.index)
    notes = _notes(task)
    if task.started is None or not notes:
        return {}
    began = min(task.started, notes[0][1])
    patterns = compile_patterns(task.run.record.metrics)
    found: dict[str, Points] = {}
    first, since = 0, 0.0
    pieces = _thinned(notes)
    most = _BUDGET // len(pieces) if notes[-1][0] > _BUDGET else _BUDGET
    for until, moment in pieces:
        reader = metric_log(log, patterns, first, min(until, first + most))
        values: dict[str, list[float]] = {}
        for name, value in reader.read(ended=until == notes[-1][0]):
            values.setdefault(name, []).append(value)
        end = max(since, moment - began)
        for name, each in values.items():
            step = (end - since) / len(each)
            found.setdefault(name, []).extend(
                (since + step * (index + 1), value) for index, value in enumerate(each)
            )
        since = end
        first = reader.offset if reader.until == until else next_line(log, until)
    return {name: _few(points) for name, points in found.items()}


def _notes(task: TaskResult) -> list[tuple[int, float]]:
    """The sizes of its log with their moments; of a short task the one at its end."""
    log = task.run.log(task.index)
    size = log.stat().st_size if log.exists() else 0
    notes: list[tuple[int, float]] = [
        (noted, moment) for noted, moment in read(log.with_name(FILE)) if noted <= size
    ]
    if task.ended is not None and size and (not notes or notes[-1][0] < size):
        notes.append((size, task.ended))
    return notes


def _thinned(notes: Sequence[tuple[int, float]]) -> Sequence[tuple[int, float]]:
    step = -(-len(notes) // _MOST)
    return [*notes[step - 1 :: step][:-1], notes[-1]] if step > 1 else notes


def _few(points: Points) -> Points:
    step = -(-len(points) // _MOST)
    return [*points[:-1:step], points[-1]]
