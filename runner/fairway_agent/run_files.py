"""Reads what is to be done from the files of a run's folder. Fault, which names the file, for one
that is damaged or that a newer release wrote. Standard library only."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from fairway_agent import record
from fairway_agent.fields import parse
from fairway_agent.plan import Retry, RunPlan
from fairway_agent.task_spec import TaskSpec

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_OFFSET = struct.Struct(">Q")


def read_plan(folder: Path, *, retry: bool = False) -> RunPlan:
    """The plan of a run; with `retry` of the tasks of it that run again."""
    path = folder / "plan.json"
    plan = parse(path, path.read_bytes(), RunPlan.from_json)
    wanted = read_retry(folder) if retry else None
    return plan.again(wanted) if wanted else plan


def read_retry(folder: Path) -> Retry | None:
    """Which tasks of a run run again; None where none was ever to."""
    path = folder / "retry.json"
    return parse(path, path.read_bytes(), Retry.from_json) if path.exists() else None


def read_spec(path: Path, offset: int = 0) -> TaskSpec:
    """The task whose line begins at that byte of a file."""
    with path.open("rb") as lines:
        lines.seek(offset)
        return parse(path, lines.readline(), TaskSpec.from_json)


def last_name(folder: Path) -> str | None:
    """How the task of `finally:` is called in the run's folder; None where the job has none."""
    path = folder / "finally.jsonl"
    return read_spec(path).name if path.exists() else None


def write_index(tasks: Path, index: Path) -> None:
    """Notes where each task's line begins, so that one is read without the others."""
    found, position = [], 0
    with tasks.open("rb") as lines:
        for line in lines:
            found.append(_OFFSET.pack(position))
            position += len(line)
    record.write_bytes(index, b"".join(found))


def read_indexed(tasks: Path, index: Path, number: int) -> TaskSpec:
    """The task of that number."""
    with index.open("rb") as offsets:
        offsets.seek(number * _OFFSET.size)
        [start] = _OFFSET.unpack(offsets.read(_OFFSET.size))
    return read_spec(tasks, start)


def read_specs(path: Path) -> Iterator[TaskSpec]:
    """Every task of a file, read when it is wanted: there may be very many. None where there is no
    such file."""
    if not path.exists():
        return
    with path.open("rb") as lines:
        for line in lines:
            yield parse(path, line, TaskSpec.from_json)
