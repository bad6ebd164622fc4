"""Settings for automatic scaling in an environment file: a scenario and its parameters."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, field_validator

from fairway_core.catalog import limit
from fairway_core.documents import FieldError, Model, rule
from fairway_core.fields import Span

ScenarioName = Literal[
    "active_tasks",
    "pending_tasks",
    "workday",
    "workday_with_offpeak_max_spot",
    "weekday",
    "weekend",
]

SAMPLE_DELAY = 60
"""Seconds until a formula can read a sample. Source: Azure documentation, automatic scaling
formula for Batch."""

_TASKS = frozenset({"active_tasks", "pending_tasks"})
_WORKDAYS = frozenset({"workday", "workday_with_offpeak_max_spot"})

# The scenarios to which a setting applies; a setting that is not listed applies to all.
_ONLY_FOR = {
    "lookback": _TASKS,
    "sample_percent": _TASKS,
    "last_sample": _TASKS,
    "rebalance": _TASKS,
    "nodes_per_job": frozenset({"pending_tasks"}),
    "hours": _WORKDAYS,
    "utc_offset": _WORKDAYS | {"weekday", "weekend"},
}


class Hours(Model, defer_build=True):
    """The working hours of a day: from `start` o'clock until before `end` o'clock."""

    start: int = Field(default=8, ge=0, le=23)
    """The hour at which they begin, from 0."""
    end: int = Field(default=18, ge=1, le=24)
    """The hour at which they end, up to 24."""

    @rule
    def _in_order(self) -> None:
        if self.start >= self.end:
            message = f"the day starts at {self.start} and ends at {self.end}"
            raise FieldError(message, "write the earlier hour first: `{start: 8, end: 18}`")


class Rebalance(Model, defer_build=True):
    """Dedicated nodes in place of evicted ones.

    When `percent` % of the Spot nodes have been evicted for the whole look-back, dedicated nodes
    replace them, `dedicated` at most, until the work is done.
    """

    percent: int = Field(default=50, ge=1, le=100)
    """Percentage of the Spot nodes that must be gone."""
    dedicated: int = Field(ge=1)
    """At most how many dedicated nodes replace them."""


class Autoscale(Model, defer_build=True):
    """A scenario with its settings, or a formula of your own.

    - `active_tasks`: as many nodes as instances wait to be run.
    - `pending_tasks`: as many nodes as instances wait or run.
    - `workday`: all nodes in working hours from Monday to Friday.
    - `workday_with_offpeak_max_spot`: dedicated nodes then, and Spot at all other times.
    - `weekday`, `weekend`: all nodes on those days.

    Batch counts the instances of a multi-instance task while it waits, but a running one as
    a single task. So a pool for MPI does not shrink while any job runs, and grows by what new
    jobs wait for, unless `nodes_per_job` says how many nodes to count for a running job.

    >>> autoscale = Autoscale(scenario="pending_tasks")
    """

    scenario: ScenarioName | None = None
    """The scenario that decides the number of nodes, for example `pending_tasks`."""
    formula: str | None = None
    """A formula in Batch's own language, in place of a scenario."""
    every: Span = limit("batch_autoscale_interval_minutes") * 60.0
    """The time between two evaluations, from 5m to 168h."""
    deallocation: Literal["requeue", "terminate", "taskcompletion", "retaineddata"] = (
        "taskcompletion"
    )
    """The handling of tasks on a node that is removed; by default they may finish."""
    maximum_increment: int | None = Field(default=None, ge=1)
    """The most nodes that one evaluation may add; by default there is no limit."""
    lookback: Span = 300.0
    """The time over which task scenarios look back, for example 5m; more than a minute."""
    sample_percent: int = Field(default=70, ge=1, le=100)
    """Percentage of those samples that must be available; with fewer nothing changes."""
    last_sample: bool = True
    """Use the newest sample if it is larger than the mean."""
    rebalance: Rebalance | None = None
    """The rule by which dedicated nodes replace evicted ones; for pools without MPI."""
    nodes_per_job: int | None = Field(default=None, ge=1)
    """The number of nodes to count for a running job of a pool for MPI."""
    hours: Hours = Field(default_factory=Hours)
    """The working hours."""
    utc_offset: float = Field(default=0.0, ge=-12, le=14)
    """Hours by which the clock is ahead of UTC; it does not follow daylight saving time."""

    @field_validator("every")
    @classmethod
    def _batch_takes_the_interval(cls, every: float) -> float:
        least = limit("batch_autoscale_interval_minutes") * 60
        most = limit("batch_autoscale_interval_hours_most") * 3600
        if not least <= every <= most:
            raise FieldError(
                f"Batch evaluates a formula every {least // 60} minutes "
                f"to every {most // 3600} hours",
                "use 5m or more, up to 168h",
            )
        return every

    @rule
    def _one_of_the_two(self) -> None:
        if (self.scenario is None) == (self.formula is None):
            raise FieldError(
                "needs either a `scenario:` or a `formula:`",
                "for example `scenario: pending_tasks`",
            )

    @rule
    def _every_setting_has_an_effect(self) -> None:
        for name in sorted(self.model_fields_set):
            if self.formula is not None and name not in ("formula", "every"):
                raise FieldError(
                    f"`{name}:` has no effect beside a `formula:`",
                    "put it into the formula",
                    (name,),
                )
            if self.scenario is not None and self.scenario not in _ONLY_FOR.get(
                name, {self.scenario}
            ):
                raise FieldError(
                    f"`{name}:` has no effect on the scenario `{self.scenario}`",
                    "leave it out",
                    (name,),
                )

    @rule
    def _samples_can_be_there(self) -> None:
        if self.lookback <= SAMPLE_DELAY:
            raise FieldError(
                "samples of the last minute are not available yet",
                "look back further, for example `lookback: 5m`",
                ("lookback",),
            )
        there = int(100 * (self.lookback - SAMPLE_DELAY) / self.lookback)
        if self.sample_percent > there:
            raise FieldError(
                f"in {self.lookback:g} seconds at most {there} % of the samples exist, "
                f"since those of the last minute are missing: {self.sample_percent} % is "
                "never reached",
                "look back further, or lower `sample_percent:`",
                ("lookback" if "lookback" in self.model_fields_set else "sample_percent",),
            )

    @property
    def by_tasks(self) -> bool:
        """True if the number of tasks decides, rather than the time."""
        return self.scenario in _TASKS

    @property
    def mixes(self) -> bool:
        """True if the pool has dedicated and Spot nodes side by side."""
        return self.rebalance is not None or self.scenario == "workday_with_offpeak_max_spot"
