"""Which of several targets costs the least: by the price of a node, or by what an earlier run of
the job has done there for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairway_core.findings import Finding, Severity, UserError
from fairway_runner.submit.budget import hourly_price

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fairway_core.target import Target
    from fairway_runner.jobs.job_file import JobFile
    from fairway_runner.runs.store import Run, RunStore

_IN_ORDER = "give an order of your own: -s 'target=[FIRST, SECOND]'"


def cheapest_first(
    job_file: JobFile, targets: Sequence[Target], metric: str, store: RunStore
) -> tuple[list[Target], list[Finding]]:
    """The targets, the cheapest first, and what is not known of them.

    With a `metric` by the price of what a run held for an hour, divided by that; targets on which
    the job has no run that succeeded with the metric come last, by their price. UserError where a
    price is not known.
    """
    prices = {each.name: hourly_price(each, "target.cheapest", _IN_ORDER) for each in targets}
    if not metric:
        return sorted(targets, key=lambda each: prices[each.name]), []
    job = next(job_file.tasks()).resolve(targets[0])
    if metric not in job.metrics:
        message = f"`target.by`: the job has no metric `{metric}`"
        hint = f"add how the log shows it: metrics: {{{metric}: 'PATTERN'}}"
        raise UserError([Finding("unknown-metric", message, hint, "target.by")])
    earlier = {each.name: _figure(store, job.name, each.name, metric) for each in targets}
    unknown = [
        Finding(
            "no-earlier-run",
            f"no run of `{job.name}` on `{name}` succeeded with a `{metric}`: it comes last",
            f"submit one: fairway submit {job_file.document.file} --target {name}",
            severity=Severity.WARNING,
        )
        for name, figure in earlier.items()
        if figure is None
    ]

    def cost(target: Target) -> tuple[bool, float]:
        price, per_price = prices[target.name], earlier[target.name]
        return per_price is None, price if per_price is None else price / per_price

    return sorted(targets, key=cost), unknown


def _figure(store: RunStore, name: str, target: str, metric: str) -> float | None:
    """The metric for each node of the last run that has it; None where none has."""
    is_asked = True
    for run in reversed(store.all()):
        try:
            if (run.record.name, run.record.target, run.state) != (name, target, "succeeded"):
                continue
            # One that is away is not waited for again: it has told what it told.
            is_asked = is_asked and _is_refreshed(run)
            found = _per_node(run, metric)
        except (UserError, OSError):
            continue  # it is damaged, and the others count
        if found is not None:
            return found
    return None


def _is_refreshed(run: Run) -> bool:
    try:
        run.refresh(logs=True)
    except UserError:
        return False
    return True


def _per_node(run: Run, metric: str) -> float | None:
    """The mean over its tasks of the metric's last value divided by the nodes of each."""
    values = [
        task.metrics[metric] / task.nodes
        for task in run.tasks
        if not task.is_last and task.metrics.get(metric, 0.0) > 0.0
    ]
    return sum(values) / len(values) if values else None
