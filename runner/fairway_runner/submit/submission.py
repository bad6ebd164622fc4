"""From a job file to a run that has started, on the first target that takes it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from fairway_core.findings import UserError, printable
from fairway_runner.engines.outage import Refused, Unavailable
from fairway_runner.jobs.job_file import has_steps
from fairway_runner.runs.folder import TakenId
from fairway_runner.submit import snapshot as code
from fairway_runner.submit.stored_submission import (
    CUT_OFF,
    cut_off,
    earlier,
    forgetting,
    repeat,
    require_run_id,
)
from fairway_runner.submit.target_selection import (
    note_passed_over,
    passed_over,
    passed_over_warning,
    prepare_for,
    select_targets,
    with_room,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fairway_runner.jobs.job_file import JobFile
    from fairway_runner.runs.store import Run, RunStore
    from fairway_runner.submit.prepare import PreparedRun

MANY = 1_000
"""Tasks of which more are started only where that is confirmed."""


def prepare_submission(
    job_file: JobFile,
    store: RunStore,
    targets: Sequence[str] = (),
    *,
    run_id: str | None = None,
    tags: Sequence[str] = (),
    note: str | None = None,
    asks: bool = True,
    copies: bool = True,
) -> PreparedRun:
    """Looks at all that can be wrong with a job file; UserError where something is. `targets`
    replace what it says, `asks` is whether targets are asked; `copies` is as for `prepare`."""
    if run_id is not None:
        require_run_id(run_id)
    if has_steps(job_file.document.data):
        from fairway_runner.submit.steps import prepare_steps

        made = prepare_steps(job_file, store, targets, run_id=run_id, asks=asks, copies=copies)
    else:
        choice = select_targets(job_file, targets)
        made = prepare_for(job_file, choice, store, run_id=run_id, asks=asks, copies=copies)
    if tags or note is not None:
        from fairway_runner.runs.labels import labelled

        made.record = labelled(made.record, tags, note)
    return made


def many(tasks: int, hint: str) -> UserError:
    """The error for a number of tasks that nobody has confirmed."""
    return UserError.of("many-tasks", f"this starts {tasks:,} tasks", hint)


def recorded_before(prepared: PreparedRun, store: RunStore) -> Run | None:
    """The run of its ID, where it is of the same job; UserError where it is of another."""
    alike = (prepared, *prepared.others, *prepared.passed)
    return earlier(store, prepared.record.id, *(each.files for each in alike))


def submit(prepared: PreparedRun, store: RunStore) -> Run:
    """Records the run and starts it on the first of its targets that takes it; one of the same ID
    and job goes on. A target that refuses it has nothing of it, and is passed over; where none
    takes it, nothing is left here, and the error names all. UserError where the target cannot be
    reached."""
    try:
        return _submit(prepared, store)
    except TakenId:
        return _submit(prepared, store)  # another command has recorded it just now


def _submit(prepared: PreparedRun, store: RunStore) -> Run:
    left, passed = [prepared, *prepared.others], passed_over(prepared.files)
    forgets = Unavailable if left[1:] or passed else Refused
    before = recorded_before(prepared, store)
    if before is not None:
        first = next(
            each for each in (*left, *prepared.passed) if each.record.target == before.record.target
        )
        left = [first, *(each for each in left if each is not first)]
    while True:
        now, *left = left
        try:
            return repeat(before, forgets) if before else _start(now, store, forgets)
        except Unavailable as error:
            before = None
            if not left and forgets is Refused:
                raise
            if not left:
                raise _with_passed(error, passed) from None
            passed[now.record.target] = why = error.findings[0].message
            import logging

            log = logging.getLogger("fairway")
            log.warning("`%s` was passed over: %s", now.record.target, printable(why))
        try:
            left, more = with_room(left)
        except UserError as error:
            raise _with_passed(error, passed) from None
        passed |= more
        left = [_in_place_of(prepared, each) for each in left]
        note_passed_over(left[0], passed)


def _with_passed(error: UserError, passed: Mapping[str, str]) -> UserError:
    """The error of the last target, with why others were passed over; nothing is left here."""
    found = [each for each in error.findings if each.id != CUT_OFF]
    tried = [passed_over_warning(name, why) for name, why in passed.items()]
    return error.with_findings([*found, *tried])


def _start(prepared: PreparedRun, store: RunStore, forgets: type[UserError]) -> Run:
    with store.recording(), code.in_use(store.base / "code"):
        snapshot = code.snapshot(prepared.code, store.base / "code")
        run, lock = store.create(prepared.record, prepared.all_files())
        try:
            with forgetting(run, forgets):
                prepared.engine.start(run, lock, snapshot, prepared.secrets)
        except UserError as error:
            raise cut_off(run, error) from None
        return run


def _in_place_of(first: PreparedRun, other: PreparedRun) -> PreparedRun:
    """The run as it goes to another target, with the labels and the origin of the first."""
    record = replace(first.record, target=other.record.target, engine=other.record.engine)
    files = {**other.files, "provenance.json": first.files["provenance.json"]}
    return replace(other, record=record, files=files)
