"""Formulas in Azure Batch's language: those of scenarios, and checks of a user's own.

The language cannot define functions, and keeps no state between evaluations except the targets
themselves: `before` is the target that the last evaluation set. The service truncates fractions of
a node. All that is used here is documented in "automatic scaling formula for Batch" of Azure's
documentation.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from fairway_agent.quick import dataclass
from fairway_core.autoscale.scenario import SAMPLE_DELAY
from fairway_core.catalog import limit
from fairway_core.documents import FieldError

if TYPE_CHECKING:
    from fairway_core.autoscale.scenario import Autoscale


_DEDICATED = "$TargetDedicatedNodes"
_SPOT = "$TargetLowPriorityNodes"
_SAMPLE = 30  # seconds between two samples


@dataclass(frozen=True, kw_only=True)
class PoolShape:
    """Facts about a pool for its formula. With `mpi` a job takes several nodes, which communicate;
    a node runs up to `task_slots` tasks."""

    minimum: int
    maximum: int
    spot: bool
    mpi: bool
    task_slots: int = 1


def scale_formula(autoscale: Autoscale, pool: PoolShape) -> str:
    """Returns the formula of a scenario for that pool, or the user's own unchanged."""
    if autoscale.formula is not None:
        return autoscale.formula
    statements = [f"minNodes = {pool.minimum}", f"maxNodes = {pool.maximum}"]
    if autoscale.scenario == "workday_with_offpeak_max_spot":
        statements += [*_peak(autoscale), *_dedicated_or_spot(autoscale)]
    else:
        target = _SPOT if pool.spot else _DEDICATED
        both = autoscale.rebalance is not None
        statements.append(f"before = {f'{_DEDICATED} + {_SPOT}' if both else target}")
        if autoscale.by_tasks:
            statements += _wanted_by_tasks(autoscale, pool)
        else:
            statements += [*_peak(autoscale), "wanted = peak ? maxNodes : minNodes"]
        statements += _within_limits(autoscale)
        other = _DEDICATED if target == _SPOT else _SPOT
        statements += _rebalanced(autoscale) if both else [f"{other} = 0", f"{target} = total"]
    statements.append(f"$NodeDeallocationOption = {autoscale.deallocation}")
    return ";\n".join(statements) + ";"


def iso_duration(seconds: float) -> str:
    """Formats a duration in ISO 8601 for Azure.

    >>> iso_duration(300), iso_duration(90)
    ('PT5M', 'PT90S')
    """
    whole = int(seconds)
    return f"PT{whole // 60}M" if whole % 60 == 0 else f"PT{whole}S"


def _wanted_by_tasks(autoscale: Autoscale, pool: PoolShape) -> list[str]:
    """Returns statements that set `wanted`: nodes for the tasks, or `before` with few samples."""
    statements = [f"lookback = {int(autoscale.lookback)} * TimeInterval_Second"]
    waiting_only = autoscale.scenario == "active_tasks"
    if not pool.mpi:
        metric = "$ActiveTasks" if waiting_only else "$PendingTasks"
        statements += _measured("tasks", metric, autoscale)
        slots = pool.task_slots
        # Rounds up, as the service truncates fractions: the last tasks get a node too.
        nodes = "tasks" if slots == 1 else f"tasks > 0 ? (tasks + {slots - 1}) / {slots} : 0"
        statements += [f"wanted = {nodes}", "known = tasksKnown"]
    else:
        # Batch counts each instance of a waiting task, but a running task only once.
        statements += _measured("active", "$ActiveTasks", autoscale)
        statements += _measured("running", "$RunningTasks", autoscale)
        count = autoscale.nodes_per_job or 1
        statements.append(f"wanted = {'active' if waiting_only else f'active + running * {count}'}")
        statements.append("known = activeKnown && runningKnown")
    # A mean below one still needs a node.
    statements.append("wanted = (wanted > 0 && wanted < 1) ? 1 : wanted")
    if pool.mpi and autoscale.nodes_per_job is None:
        statements += _arrived(autoscale, pool)
        statements.append("wanted = running > 0 ? max(wanted, before + arrived) : wanted")
    statements.append("wanted = known ? wanted : before")
    return statements


def _arrived(autoscale: Autoscale, pool: PoolShape) -> list[str]:
    """Returns statements that set `arrived`: the new waiting instances since the last evaluation.

    The number of nodes of a running job is unknown, so new instances are added to the existing
    nodes, once. The interval includes the sample before it, or an increase up to its first sample
    would be missed. A job whose node was evicted waits again, and is not new.
    """
    statements = [
        f"sinceLast = {int(autoscale.every) + _SAMPLE + SAMPLE_DELAY} * TimeInterval_Second",
        "least = activeKnown ? min($ActiveTasks.GetSample(sinceLast)) : 0",
        "arrived = activeKnown ? max(0, val($ActiveTasks.GetSample(1), 0) - least) : 0",
    ]
    if pool.spot:
        evicted = "$PreemptedNodeCount"
        there = f"{evicted}.GetSamplePercent(lookback) >= {autoscale.sample_percent}"
        statements += [
            f"evicted = {there} ? max({evicted}.GetSample(sinceLast)) : 0",
            "arrived = evicted > 0 ? 0 : arrived",
        ]
    return statements


def _measured(name: str, metric: str, autoscale: Autoscale) -> list[str]:
    """Returns statements for `nameKnown` and `name`: the mean, or if asked a larger last sample."""
    known = f"{name}Known"
    statements = [
        f"{known} = {metric}.GetSamplePercent(lookback) >= {autoscale.sample_percent}",
        f"{name} = {known} ? avg({metric}.GetSample(lookback)) : 0",
    ]
    if autoscale.last_sample:
        last = f"val({metric}.GetSample(1), 0)"
        statements.append(f"{name} = {known} ? max({name}, {last}) : 0")
    return statements


def _peak(autoscale: Autoscale) -> list[str]:
    """Returns statements that set `peak`: whether it is now the scenario's time."""
    minutes = round(autoscale.utc_offset * 60)
    now = "time()" if minutes == 0 else f"time() + {minutes} * TimeInterval_Minute"
    # Monday is 1. Sunday may be 0 or 7: all other days are the weekend.
    statements = [f"now = {now}", "weekday = now.weekday >= 1 && now.weekday <= 5"]
    if autoscale.scenario == "weekday":
        return [*statements, "peak = weekday"]
    if autoscale.scenario == "weekend":
        return [*statements, "peak = !weekday"]
    hours = autoscale.hours
    working = f"now.hour >= {hours.start} && now.hour < {hours.end}"
    return [*statements, f"peak = weekday && {working}"]


def _within_limits(autoscale: Autoscale) -> list[str]:
    statements = ["total = max(minNodes, min(maxNodes, wanted))"]
    if autoscale.maximum_increment is not None:
        most = f"before + {autoscale.maximum_increment}"
        statements.append(f"total = min(total, max(minNodes, {most}))")
    return statements


def _rebalanced(autoscale: Autoscale) -> list[str]:
    """Returns statements that replace nodes evicted for the entire look-back by dedicated ones; the
    share is a percentage of the Spot nodes, which include the evicted ones."""
    rebalance = autoscale.rebalance
    assert rebalance is not None
    evicted = "$PreemptedNodeCount"
    enough = f"{evicted}.GetSamplePercent(lookback) >= {autoscale.sample_percent}"
    spot = "$CurrentLowPriorityNodes"
    return [
        f"evictedKnown = {enough}",
        f"evicted = evictedKnown ? min({evicted}.GetSample(lookback)) : 0",
        f"share = {spot} > 0 ? 100 * evicted / {spot} : 0",
        f"replaced = share >= {rebalance.percent} ? evicted : 0",
        f"dedicated = min({rebalance.dedicated}, total, {_DEDICATED} + replaced)",
        f"{_DEDICATED} = dedicated",
        f"{_SPOT} = total - dedicated",
    ]


def _dedicated_or_spot(autoscale: Autoscale) -> list[str]:
    """Returns statements for dedicated nodes at peak times, otherwise their minimum and Spot."""
    statements = ["dedicated = peak ? maxNodes : minNodes", "spot = peak ? 0 : maxNodes - minNodes"]
    if autoscale.maximum_increment is not None:
        more = autoscale.maximum_increment
        statements += [
            f"dedicated = min(dedicated, max(minNodes, {_DEDICATED} + {more}))",
            f"spot = min(spot, {_SPOT} + {more})",
        ]
    return [*statements, f"{_DEDICATED} = dedicated", f"{_SPOT} = spot"]


_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_TARGET = re.compile(r"\$Target(Dedicated|LowPriority)(?:Nodes)?\s*=(?!=)\s*([^;]*)")
_SAMPLES = re.compile(r"\.GetSample\s*\(")
_GUARD = re.compile(r"\.GetSamplePercent\s*\(")
_KINDS = {"Dedicated": "dedicated", "LowPriority": "Spot"}
_SHORTER = "shorten it, or name a `scenario:` in its place"


def check_formula(formula: str, *, spot: bool, mpi: bool) -> None:
    """Raises FieldError if the formula exceeds Batch's limits, does not set the target of the
    pool's kind of nodes, sets the other kind although the nodes communicate, or reads samples that
    may be missing."""
    _check_size(formula)
    text = _COMMENT.sub(" ", formula)
    targets: dict[str, list[str]] = {}
    for kind, value in _TARGET.findall(text):
        targets.setdefault(_KINDS[kind], []).append(value.strip())
    own, other = ("Spot", "dedicated") if spot else ("dedicated", "Spot")
    if own not in targets:
        name = "$TargetLowPriorityNodes" if spot else "$TargetDedicatedNodes"
        raise FieldError(f"the formula does not set the number of {own} nodes", f"set `{name}`")
    sets_other = any(value != "0" for value in targets.get(other, ()))
    if mpi and sets_other:
        raise FieldError(
            f"the formula also sets {other} nodes, and a pool for MPI holds only one kind",
            "set the other target to 0, or set `mpi: false` where each job takes one node",
        )
    if not spot and sets_other:
        raise FieldError("the formula sets Spot nodes", "set `spot: true`")
    alone = [match for match in _SAMPLES.finditer(text) if not _has_second(text[match.end() :])]
    if alone and not _GUARD.search(text):
        raise FieldError(
            "the formula reads samples without checking that they exist",
            "guard them with `GetSamplePercent`, or add a percentage: GetSample(interval, 70)",
        )


def _has_second(arguments: str) -> bool:
    """Returns True if a call has a second argument; the text starts after the opening bracket."""
    depth = 0
    for character in arguments:
        if character == "," and depth == 0:
            return True
        depth += {"(": 1, ")": -1}.get(character, 0)
        if depth < 0:
            break
    return False


def _check_size(formula: str) -> None:
    size, most = len(formula.encode()), limit("batch_autoscale_formula_bytes")
    if size > most:
        raise FieldError(
            f"the formula has {size} bytes, and Batch accepts at most {most}", _SHORTER
        )
    statements = [part for part in _COMMENT.sub(" ", formula).split(";") if part.strip()]
    most = limit("batch_autoscale_formula_statements")
    if len(statements) > most:
        message = f"the formula has {len(statements)} statements, and Batch accepts at most {most}"
        raise FieldError(message, _SHORTER)
