"""Usage of runs and its cost: nodes by the hour, at the list price of their size.

A task uses its nodes, or its part of one, from the beginning of each attempt to its end. The cost
of nodes while no task has them belongs to the environment, and is in `fairway cost`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from fairway_agent.quick import dataclass
from fairway_core.findings import UserError
from fairway_core.suggestions import did_you_mean
from fairway_runner.runs.records import facts_in

if TYPE_CHECKING:
    from fairway_core.cost.prices import Prices
    from fairway_runner.runs.results import TaskResult
    from fairway_runner.runs.store import Run

_HOUR = 3600.0
BY = ("name", "tag", "user", "target", "month")


@dataclass(frozen=True)
class RunUsage:
    """Usage of one run so far: node-hours of a size, and the hourly price of one node. `hourly` is
    None if no price is known, and `size` is empty if nodes have no price, as on this machine."""

    run: Run
    node_hours: float
    size: str
    spot: bool
    region: str
    hourly: float | None

    @property
    def cost(self) -> float | None:
        """Its total cost; None if no price is known."""
        return None if self.hourly is None else self.node_hours * self.hourly

    @property
    def is_priced(self) -> bool:
        """True if it should have a cost."""
        return bool(self.size) or self.hourly is not None

    def to_json(self, currency: str) -> dict[str, Any]:
        """Returns plain data, with costs in that currency; `cost` is null if no price is known."""
        return {
            "node_hours": round(self.node_hours, 4),
            "vm_size": self.size or None,
            "spot": self.spot,
            "region": self.region or None,
            "hourly": self.hourly,
            "cost": None if self.cost is None else round(self.cost, 4),
            "currency": currency,
        }


def region_of(environment: str) -> str:
    """Returns the Azure region of an environment, if its file is known here; "" otherwise."""
    from fairway_core.environment import load_environment
    from fairway_core.environment.selection import environment_file

    if environment:
        for choice in (environment, None):
            with suppress(UserError):
                loaded = load_environment(environment_file(choice))
                if loaded.name == environment:
                    return loaded.location
    return ""


def usage_of(
    run: Run,
    tasks: Iterable[TaskResult],
    prices: Callable[[], Prices],
    region: str | None = None,
    locate: Callable[[str], str] = region_of,
) -> RunUsage:
    """Returns the usage so far of one run; prices are looked up only if its nodes have one. The
    `region` is that of the run's target or, by `locate`, of its environment, unless it is given."""
    target = facts_in(run.folder / "target.json")
    size, spot = str(target.get("vm_size") or ""), bool(target.get("spot"))
    price = target.get("price")
    its_region = ""
    if size:
        its_region = region or str(target.get("region") or "") or locate(environment_of(run))
    until = time.time()
    seconds = sum(
        seconds_held(task, until) * task.nodes * min(1.0, task.node_fraction or 1.0)
        for task in tasks
    )
    hourly = float(price) if isinstance(price, int | float) and price > 0 else None
    if hourly is None and size and its_region:
        from fairway_core.cost.prices import node_price

        hourly = node_price(prices(), size=size, region=its_region, spot=spot)
    return RunUsage(run, seconds / _HOUR, size, spot, its_region, hourly)


def environment_of(run: Run) -> str:
    """Returns the name of the environment of its target; "" if it has none."""
    return str(facts_in(run.folder / "target.json").get("environment") or "")


def seconds_held(task: TaskResult, now: float) -> float:
    """Returns for how many seconds a task has had its nodes, in all recorded attempts."""
    if task.started is not None and task.state == "running":
        return (task.held or 0.0) + max(0.0, now - task.started)
    if task.held is not None:
        return task.held
    return 0.0 if task.started is None else max(0.0, (task.ended or 0.0) - task.started)


@dataclass
class Group:
    """Runs that share a value, and their usage; `cost` leaves out the `unpriced` ones."""

    key: str
    runs: int = 0
    node_hours: float = 0.0
    cost: float = 0.0
    unpriced: int = 0
    sizes: set[str] = field(default_factory=set)

    def add(self, use: RunUsage) -> None:
        """Adds one run's usage."""
        self.runs += 1
        self.node_hours += use.node_hours
        self.cost += use.cost or 0.0
        self.unpriced += use.is_priced and use.cost is None
        self.sizes |= {use.size} - {""}

    @property
    def facts(self) -> dict[str, Any]:
        """Facts of the group as plain data."""
        return {
            "key": self.key,
            "runs": self.runs,
            "node_hours": round(self.node_hours, 4),
            "cost": round(self.cost, 4) if self.runs > self.unpriced else None,
            "unpriced": self.unpriced,
            "sizes": sorted(self.sizes),
        }


def require_group(option: str, by: str | None, known: Sequence[str] = BY) -> None:
    """Raises UserError, which names the option, if runs cannot be grouped by it."""
    if by is not None and by not in known:
        message = f"{option}: runs cannot be grouped by `{by}`"
        raise UserError.of("bad-value", message, did_you_mean(by, known))


def grouped(found: Sequence[RunUsage], by: str | None) -> list[Group]:
    """Groups the usages by one of `BY`, the most expensive last, but months in order; without it
    each run alone, in the order given. A run is in the group of each of its tags, and one without
    any in that called ""."""
    groups: dict[str, Group] = {}
    for use in found:
        for key in _KEYS[by or "run"](use.run):
            groups.setdefault(key, Group(key)).add(use)
    if by == "month":
        return sorted(groups.values(), key=lambda group: group.key)
    if by is None:
        return list(groups.values())
    return sorted(groups.values(), key=lambda group: (group.cost, group.node_hours, group.key))


def run_cost_facts(found: Sequence[RunUsage], *, by: str | None, currency: str) -> dict[str, Any]:
    """Returns the uses as plain data; money is in `currency`, null if no price is known."""
    total = Group("total")
    for use in found:
        total.add(use)
    return {
        "by": by or "run",
        "currency": currency,
        "groups": [group.facts for group in grouped(found, by)],
        "total": {name: value for name, value in total.facts.items() if name != "key"},
    }


def this_month(found: Sequence[RunUsage]) -> Group:
    """Sums up the usage of runs that were submitted in this month; the month is the key."""
    month = _month(time.time())
    return next((each for each in grouped(found, "month") if each.key == month), Group(month))


def _month(moment: float) -> str:
    return f"{datetime.fromtimestamp(moment, UTC):%Y-%m}"


_KEYS: dict[str, Callable[[Run], Sequence[str]]] = {
    "run": lambda run: [run.id],
    "name": lambda run: [run.record.name],
    "tag": lambda run: run.tags or [""],
    "user": lambda run: [str(facts_in(run.folder / "provenance.json").get("user") or "")],
    "target": lambda run: [run.record.target],
    "month": lambda run: [_month(run.record.created)],
}
