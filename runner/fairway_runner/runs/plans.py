"""Reads what a run is to do from its folder, by the types that it was written with.

Those of the whole plan are imported when one is read: who shows a run needs only its tasks.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from fairway_agent.fields import Unfit
from fairway_agent.task_spec import TaskSpec
from fairway_runner.runs.records import damaged, read_as

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from typing import TypeVar

    from fairway_agent.plan import Retry, RunPlan

    T = TypeVar("T")


def read_plan(folder: Path) -> RunPlan:
    """The plan of the run in a folder; UserError where it is damaged, or of a newer release."""
    from fairway_agent.plan import RunPlan

    return _kept(folder / "plan.json", RunPlan.from_json)


def read_retry(folder: Path) -> Retry:
    """Which of its tasks run again; UserError where that is damaged, or nothing says so."""
    from fairway_agent.plan import Retry

    return _kept(folder / "retry.json", Retry.from_json)


def _kept(path: Path, make: Callable[[object], T]) -> T:
    try:
        return read_as(path, make)
    except FileNotFoundError:
        raise damaged(path, "missing") from None


def read_specs(path: Path) -> Iterator[TaskSpec]:
    """Every task of a file of the folder, read when it is wanted; UserError where it is damaged,
    FileNotFoundError where there is none."""
    try:
        with path.open("rb") as lines:
            for line in lines:
                yield TaskSpec.from_json(json.loads(line))
    except FileNotFoundError:
        raise
    except RecursionError:
        raise damaged(path, "nested too deeply") from None
    except (OSError, ValueError, Unfit) as error:
        raise damaged(path, str(error)) from None


def read_last(folder: Path) -> Iterator[TaskSpec]:
    """The task of `finally:`, where the job has one."""
    path = folder / "finally.jsonl"
    return read_specs(path) if path.exists() else iter(())
