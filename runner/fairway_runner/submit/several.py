"""A job that may run on several targets: all that can be wrong with it is looked at for each of
them before anything starts."""

from __future__ import annotations

import hashlib
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from fairway_core.findings import Finding, UserError
from fairway_runner.engines.capabilities import require_movable
from fairway_runner.jobs.where import place_of, where_of
from fairway_runner.runs import fallback
from fairway_runner.runs.fallback import Fallback, Try
from fairway_runner.runs.store import RunStore
from fairway_runner.submit.listing import require_one_target
from fairway_runner.submit.submission import prepare
from fairway_runner.targets import LOCAL
from fairway_runner.targets.lookup import find_target

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fairway_core.documents import Document
    from fairway_core.target import Target
    from fairway_runner.jobs.job_file import JobFile
    from fairway_runner.submit.submission import Prepared


@dataclass(frozen=True)
class Choice:
    """The targets that a job may run on, the best one first; for how many seconds a run waits on
    each; and what a person should hear of their order, which `is_found` where it goes by figures
    that may be others another time."""

    targets: tuple[Target, ...]
    patience: float | None = None
    warnings: Sequence[Finding] = ()
    is_found: bool = False


def choose(job_file: JobFile, names: Sequence[str] = (), patience: float | None = None) -> Choice:
    """Where a job runs: what the caller names, or the job itself, or `local`.

    UserError for a target that is not there, or that cannot be one of several.
    """
    own = where_of(job_file.document)
    if not names and own is not None:
        names = own.names
        patience = own.patience if patience is None else patience
    else:
        own = None
    with job_file.document.locating():
        targets = _found(names or [LOCAL], None if own is None else job_file.document)
        unknown: Sequence[Finding] = ()
        if len(targets) > 1:
            require_movable(targets)
            if own is not None and own.cheapest is not None:
                from fairway_runner.submit.cheapest import cheapest_first

                targets, unknown = cheapest_first(job_file, targets, own.metric, RunStore.here())
        elif patience is not None:
            message = f"patience is for several targets, and there is only `{targets[0].name}`"
            hint = "name another, as in --target FIRST,SECOND, or leave patience out"
            path = "" if own is None else "target.patience"
            raise UserError([Finding("one-target", message, hint, path)])
    is_found = own is not None and own.cheapest is not None
    return Choice(tuple(targets), patience, unknown, is_found)


def _found(names: Sequence[str], document: Document | None) -> list[Target]:
    """The targets of those names, which the document names, if there is one; UserError for all
    that are not there."""
    targets: list[Target] = []
    unknown: list[Finding] = []
    for name in dict.fromkeys(names):
        try:
            targets.append(find_target(name))
        except UserError as error:
            if error.findings[0].id != "unknown-target":
                raise
            path = "" if document is None else place_of(document, name)
            unknown.extend(replace(finding, path=path) for finding in error.findings)
    if unknown:
        raise UserError(unknown)
    return targets


def prepare_for(
    job_file: JobFile,
    choice: Choice,
    store: RunStore,
    *,
    run_id: str | None = None,
    asks: bool = True,
    copies: bool = True,
) -> Prepared:
    """What `prepare` makes of the job for the first target that has room now, with those after
    it; the first of all unless one `asks`. UserError with all that is wrong with the job on any of
    them."""
    if len(choice.targets) == 1:
        return prepare(job_file, choice.targets[0], store, run_id=run_id, asks=asks, copies=copies)
    require_one_target(job_file)
    each = _prepared(job_file, choice.targets, store, run_id, copies=copies)
    ready, away = _asked(each) if asks else (each, [])
    first, *others = ready
    tries = [*away, Try(first.record.target, time.time())]
    names = tuple(other.record.target for other in others)
    # The same job again is the same submission, whichever targets are the cheapest by now.
    digest = _digest(sorted(each, key=_target_of) if choice.is_found else each)
    state = Fallback("starting", tuple(tries), names, choice.patience, digest)
    first.files[fallback.FILE] = state.text()
    first.next = others
    first.warnings = _once([*choice.warnings, *(found for one in each for found in one.warnings)])
    return first


def _prepared(
    job_file: JobFile,
    targets: Sequence[Target],
    store: RunStore,
    run_id: str | None,
    *,
    copies: bool,
) -> list[Prepared]:
    found: list[Prepared] = []
    errors: list[UserError] = []
    for target in targets:
        try:
            made = prepare(job_file, target, store, run_id=run_id, asks=False, copies=copies)
        except UserError as error:
            errors.append(error)
            continue
        run_id = made.plan.run
        found.append(made)
    _raise(errors)
    return found


def _asked(prepared: Sequence[Prepared]) -> tuple[list[Prepared], list[Try]]:
    """Those whose targets may run the job; those that have no room now, and why.

    UserError where a target never can run it, or none has room.
    """
    from fairway_runner.runs.moving import has_no_room

    ready: list[Prepared] = []
    away: list[Try] = []
    errors: list[UserError] = []
    full: list[UserError] = []
    for each in prepared:
        try:
            each.plan.engine.require(each.job, each.plan.needs)
            ready.append(each)
        except UserError as error:
            (full if has_no_room(error) else errors).append(error)
            now, why = time.time(), error.findings[0].message
            away.append(Try(each.record.target, now, now, why))
    _raise(errors or ([] if ready else full))
    return ready, away


def _raise(errors: Sequence[UserError]) -> None:
    """All of them as one."""
    if errors:
        findings = _once([finding for error in errors for finding in error.findings])
        raise UserError(findings, exit_code=min(error.exit_code for error in errors))


def _once(findings: Sequence[Finding]) -> list[Finding]:
    """What is wrong on every target alike is said once."""
    return list(dict.fromkeys(findings))


def _digest(prepared: Sequence[Prepared]) -> str:
    """What tells a submission apart, whichever targets could be asked."""
    digest = hashlib.sha256()
    for each in prepared:
        for name in ("job.json", "target.json"):
            digest.update(each.files[name].encode() + b"\0")
    return digest.hexdigest()


def _target_of(prepared: Prepared) -> str:
    return prepared.record.target
