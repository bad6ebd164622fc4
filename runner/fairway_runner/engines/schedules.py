"""Recurring schedules, as those engines offer them that can start runs by themselves."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Protocol, cast

from fairway_runner.engines.capabilities import capabilities
from fairway_runner.engines.engine import engine_for

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from fairway_core.target import Target
    from fairway_runner.submit.prepare import PreparedRun

_ELSEWHERE = "let cron or a pipeline start it: fairway submit JOB --target NAME"


@dataclass(frozen=True)
class Recurrence:
    """Each `interval` seconds; the first time not before `first`, where that is given."""

    interval: int
    first: datetime | None = None

    def wire(self) -> dict[str, str]:
        """As Azure Batch has it, and `--json` too."""
        times = {"recurrenceInterval": f"PT{self.interval // 60}M"}
        if self.first is not None:
            times["doNotRunUntil"] = self.first.strftime("%Y-%m-%dT%H:%M:%SZ")
        return times


@dataclass(frozen=True)
class Schedule:
    """One schedule: its id, `active`, `disabled` or `completed`, when it runs next, and the id
    of its last run."""

    name: str
    state: str
    interval: str
    next_run: str
    last_run: str


class Schedules(Protocol):
    """The schedules of one target."""

    def every(self, seconds: float) -> Recurrence:
        """Every `seconds`, from now on; UserError where the service cannot."""

    def cron(self, line: str, now: datetime) -> Recurrence:
        """As a line of cron says; UserError where the service cannot."""

    def create(self, prepared: PreparedRun, recurrence: Recurrence) -> str:
        """Makes the schedule, named as the run that was prepared; returns that name. UserError
        where the service cannot start such a job by itself, or has such a schedule."""

    def all(self) -> Sequence[Schedule]:
        """Lists the target's schedules, sorted by name."""

    def act(self, action: str, name: str) -> None:
        """`disable`, `enable` or `delete`; UserError where there is no such schedule."""


def schedules_of(target: Target) -> Schedules:
    """The schedules of a target; UserError where its engine has none."""
    engine = engine_for(target)
    if not capabilities(target.engine).schedules:
        raise engine.unsupported("run jobs on a schedule", _ELSEWHERE)
    module = import_module(f"fairway_runner.engines.{target.engine}.schedules")
    return cast("Schedules", module.SCHEDULES(engine))
