"""Selects the target of a job: the one that it names, or the first of several with room for it.

The choice is made when the job is submitted, by what is known then. A run never moves afterwards.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from fairway_core.findings import Finding, Severity, UserError
from fairway_runner.engines import outage
from fairway_runner.jobs.job_fields import place_of, where_of
from fairway_runner.jobs.job_file import JobFile, sweeps_files
from fairway_runner.runs.store import RunStore
from fairway_runner.submit.prepare import PreparedRun, prepare
from fairway_runner.submit.run_plan import hourly_price
from fairway_runner.targets import LOCAL
from fairway_runner.targets.lookup import find_target

if TYPE_CHECKING:
    from fairway_core.target import Target

# Seconds to retry an unavailable target, if there is another.
_BRIEF = 60.0

# IDs of findings that a target has no room: no host, nothing that listens at its address on this
# machine, or a pool that cannot grow or is broken.
_NO_ROOM = frozenset(
    {"no-address", outage.NO_LISTENER, "resize-error", "unfit-nodes", "pool-disabled"}
)

_IN_ORDER = "give an order of your own: -s 'target=[FIRST, SECOND]'"


def select_targets(
    job_file: JobFile, names: Sequence[str] = ()
) -> tuple[list[Target], list[Finding]]:
    """Returns the targets that the job may run on, the best first, and remarks about their order:
    those that are named, or `local`. Raises UserError for unknown ones."""
    document = job_file.document
    own = None if names else where_of(document)
    names = names or (own.names if own is not None else ()) or [LOCAL]
    targets: list[Target] = []
    unknown: list[Finding] = []
    with document.locating():
        for name in dict.fromkeys(names):
            try:
                targets.append(find_target(name))
            except UserError as error:
                if error.findings[0].id != "unknown-target":
                    raise
                path = "" if own is None else place_of(document, name)
                unknown.extend(replace(finding, path=path) for finding in error.findings)
        if unknown:
            raise UserError(unknown)
        if len(targets) > 1 and own is not None and own.cheapest is not None:
            targets, unknown = _cheapest_first(job_file, targets, own.metric, RunStore.here())
    return targets, unknown


def prepare_for(
    job_file: JobFile,
    names: Sequence[str],
    store: RunStore,
    *,
    run_id: str | None = None,
    asks: bool = True,
    copies: bool,
) -> PreparedRun:
    """Returns the job prepared for the first target that has room now, with the targets to try if
    that refuses it; for the first of all unless one `asks`. Raises UserError with all that is wrong
    with the job on any of them."""
    targets, remarks = select_targets(job_file, names)
    if len(targets) == 1:
        return prepare(job_file, targets[0], store, run_id=run_id, asks=asks, copies=copies)
    if sweeps_files(job_file.document.data):
        message = "its sweep lists the files of an input, which differ from target to target"
        hint = "name one target: --target NAME"
        raise job_file.document.error("one-target", ("sweep",), message, hint, of_key=True)
    each: list[PreparedRun] = []
    errors: list[UserError] = []
    for target in targets:
        try:
            made = prepare(job_file, target, store, run_id=run_id, asks=False, copies=copies)
        except UserError as error:
            errors.append(error)
            continue
        run_id = made.record.id
        each.append(made)
    if errors:
        raise outage.join_errors(errors)
    ordered, passed = _fit(each) if asks else (each, {})
    if asks:
        ordered, more = targets_with_room(ordered)
        passed |= more
    first, *others = ordered
    first.others = others
    left = {one.record.target for one in ordered}
    first.passed = [one for one in each if one.record.target not in left]
    first.provenance |= {PASSED: passed} if passed else {}
    hints = [passed_over_warning(name, why) for name, why in passed.items()]
    known = [*remarks, *hints, *(found for one in each for found in one.warnings)]
    first.warnings = list(dict.fromkeys(known))  # once each: every target has the same ones
    return first


def _fit(prepared: Sequence[PreparedRun]) -> tuple[list[PreparedRun], dict[str, str]]:
    """Returns the runs whose targets may run the job, and the reasons why others cannot now, by
    target name. Raises UserError if a target never can run it, or none can now."""
    found: list[PreparedRun] = []
    passed: dict[str, str] = {}
    errors: list[UserError] = []
    full: list[UserError] = []
    for each in prepared:
        try:
            each.engine.require(each.job, each.plan.needs)
            found.append(each)
        except UserError as error:
            (full if _has_no_room(error) else errors).append(error)
            passed[each.record.target] = error.findings[0].message
    if errors or not found:
        raise outage.join_errors(errors or full)
    return found, passed


def targets_with_room(prepared: Sequence[PreparedRun]) -> tuple[list[PreparedRun], dict[str, str]]:
    """Returns the first target with room now and those after it, then those on which the job would
    wait, and the reasons by name. The last one is not asked: its own answer will do. Raises
    UserError if none answers."""
    waits: list[PreparedRun] = []
    passed: dict[str, str] = {}
    away: list[UserError] = []
    for position, each in enumerate(prepared):
        if position == len(prepared) - 1 and not waits and not away:
            return [each], passed
        try:
            with each.engine.within(_BRIEF):
                why = each.engine.no_capacity(each.job)
        except UserError as error:
            if _has_no_room(error):
                away.append(error)
                passed[each.record.target] = error.findings[0].message
                continue
            why = ""  # other errors are reported by the start itself
        if not why:
            return [*prepared[position:], *waits], passed
        waits.append(each)
        passed[each.record.target] = why
    if not waits:
        raise outage.join_errors(away)
    passed.pop(waits[0].record.target)
    return waits, passed


def _has_no_room(error: UserError) -> bool:
    """Returns True if a target is away, or has no node for the job, but may have one later."""
    away = isinstance(error, outage.TargetUnavailable)
    return away or all(finding.id in _NO_ROOM for finding in error.findings)


PASSED = "passed_over"
"""Fact of a run's provenance: the reasons against other targets, by their names."""


def passed_over_warning(name: str, why: str) -> Finding:
    hint = f"check it now: fairway doctor {name}"
    message = f"`{name}` was passed over: {why}"
    return Finding("passed-over", message, hint, severity=Severity.WARNING)


def _cheapest_first(
    job_file: JobFile, targets: Sequence[Target], metric: str, store: RunStore
) -> tuple[list[Target], list[Finding]]:
    """Returns the targets, the cheapest first, and remarks on unknown figures. A `metric` divides
    the price of an hour of a run's nodes; targets without a run that has it come last, by their
    price. Raises UserError if a price is unknown."""
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
    """Returns the metric per node of the last run that has it; None if none has."""
    is_asked = True
    for run in reversed(store.all()):
        try:
            if (run.record.name, run.record.target, run.state) != (name, target, "succeeded"):
                continue
            # An unavailable target is not waited for again: its recorded values count.
            try:
                if is_asked:
                    run.refresh(logs=True)
            except UserError:
                is_asked = False
            values = [
                figure / task.nodes
                for task in run.tasks
                if not task.is_last and (figure := task.metrics.get(metric, 0.0)) > 0.0
            ]
            found = sum(values) / len(values) if values else None
        except (UserError, OSError):
            continue  # damaged; the other runs count
        if found is not None:
            return found
    return None
