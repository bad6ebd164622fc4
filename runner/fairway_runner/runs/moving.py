"""Takes a run to its next target where this one has no room for it, and never to two at a time.

No program of ours stays on by itself to do that: what follows a run does it. A run is cancelled on
its target, and has ended there, before anything of it is sent to the next; each step is written
into its folder first (see `fallback`), so that the next command goes on where one was killed.
"""

from __future__ import annotations

import logging
import shutil
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from fairway_agent import state_files
from fairway_agent.run_state import RunState
from fairway_core.findings import Finding, UserError, printable
from fairway_runner.engines import deadline
from fairway_runner.engines.absence import is_away
from fairway_runner.engines.engine import engine_for
from fairway_runner.engines.refusals import Unavailable
from fairway_runner.quantities import duration
from fairway_runner.runs import fallback
from fairway_runner.runs.folder import RunFolder
from fairway_runner.runs.records import damaged, known_state, read_kept, read_record
from fairway_runner.submit import snapshot as code
from fairway_runner.targets.lookup import submitted_to

if TYPE_CHECKING:
    from collections.abc import Callable

    from fairway_runner.engines.engine import Engine
    from fairway_runner.runs.fallback import Fallback

# Seconds for which a target that does not answer is asked, where there is another.
_BRIEF = 60.0

# The ids of errors that say of a target: there is no host, or the pool cannot grow, or is broken.
_NO_ROOM = frozenset({"no-address", "resize-error", "unfit-nodes", "pool-disabled"})

# What stays in a run's folder when it leaves a target.
_STAYS = frozenset(
    (
        *fallback.FILES,
        *("job.yaml", "provenance.json", "code.diff", "state.json", "targets", "lock"),
        *("labels.json", "labels.lock", fallback.FILE, fallback.LOCK),
    )
)

_LOG = logging.getLogger("fairway")


def follow(run: RunFolder, engine_now: Callable[[], Engine], *, logs: bool = False) -> None:
    """Brings a run up to date that may go to other targets, and takes it to its next one where
    this one has no room for it. Another command that does so is left to it.

    `engine_now` is asked while nobody else moves the run.
    """
    with fallback.moving(run.folder) as alone:
        if not alone:
            return
        found = _advance_or_fail(run)
        if not found.is_open:
            return
        engine_now().refresh([run], logs=logs)
        state = known_state(run.folder) or RunState()
        if state.state != "queued" or state.started is not None:
            settle(run)
        elif why := _why_to_leave(found, state, _now()):
            found.leaves("leaving", why, _now()).write(run.folder)
            _advance_or_fail(run)


def advance(run: RunFolder) -> Fallback:
    """Completes what was begun: a submission, or the way to another target. The caller alone moves
    the run. Unavailable where the last target does not take it."""
    steps = {"starting": _start, "leaving": _leave, "left": _arrive}
    while True:
        found = fallback.read(run.folder)
        assert found is not None, "a run with several targets has the file"
        if found.phase not in steps and not (found.cancelled and found.is_open):
            return found
        if found.cancelled:
            _end(run, found, engine_for(submitted_to(run)))
            continue
        steps[found.phase](RunFolder(run.folder), found)


def cancel(run: RunFolder, engine_now: Callable[[], Engine]) -> None:
    """Ends a run early that may go to other targets: it goes to none. Where its target cannot be
    told, the next command that follows it does so."""
    with fallback.moving(run.folder, wait=True):
        found = fallback.read(run.folder)
        assert found is not None, "a run with several targets has the file"
        found = replace(found, cancelled=True)
        found.write(run.folder)
        try:
            _end(run, found, engine_now())
        except UserError as error:
            message = (
                f"{run.id} is to be cancelled on {found.tries[-1].target}, and will not go "
                "to another target"
            )
            hint = f"repeat it once the target answers: fairway cancel {run.id}"
            noted = Finding("cancel-noted", message, hint)
            raise UserError([*error.findings, noted], exit_code=error.exit_code) from None


def _end(run: RunFolder, found: Fallback, engine: Engine) -> None:
    """Ends a run that a person has cancelled, where it is."""
    if found.phase == "left":
        if not (run.folder / "engine.json").exists():
            _arrive(run, found)  # its files may be those of two targets
        _write_end(run, "cancelled", None)
    elif not run.end_unsent():
        engine.cancel(RunFolder(run.folder))
    settle(run)


def settle(run: RunFolder) -> None:
    """From now on the run stays where it is."""
    found = fallback.read(run.folder)
    if found is not None and found.is_open:
        replace(found, phase="settled").write(run.folder)
    shutil.rmtree(run.folder / "targets", ignore_errors=True)


def _why_to_leave(found: Fallback, state: RunState, now: float) -> str:
    """Why a queued run is to go to its next target; "" where it stays."""
    if not found.left:
        return ""
    if state.no_capacity:
        return state.reason or "the target has no capacity"
    waited = now - found.tries[-1].began
    if found.patience is not None and waited >= found.patience:
        why = f": {state.reason}" if state.reason else ""
        return f"it has not started there within {duration(found.patience)}{why}"
    return ""


def _advance_or_fail(run: RunFolder) -> Fallback:
    """The same for a run that is followed: it has failed where no target takes it."""
    try:
        return advance(run)
    except Unavailable as error:
        reason = f"no target accepts it: {error.findings[0].message}"
        _write_end(run, "failed", reason)
        settle(run)
    found = fallback.read(run.folder)
    assert found is not None, "it was written just now"
    return found


def _start(run: RunFolder, found: Fallback) -> None:
    """Sends the run to the target whose files it has, or what is not there yet of it."""
    digest = read_kept(run.folder / "provenance.json").get("code")
    if not isinstance(digest, str):
        raise damaged(run.folder / "provenance.json", "it names no code")
    snapshot = code.stored(digest, run.folder.parent.parent / "code")
    brief = min(_BRIEF, deadline.deadline()) if found.left else None
    engine = engine_for(submitted_to(run), brief)
    try:
        # Where it does not answer, nothing of the run may be there: so it is asked beforehand.
        if found.left and not (run.folder / "engine.json").exists():
            _require_answer(engine)
        engine.start(run, run.take_lock(), snapshot, {})
    except Unavailable as error:
        if not found.left:
            raise _refused_by_all(found, error) from None
        why = error.findings[0].message
        found.leaves("left", why, _now()).write(run.folder)
        _say(run, found, why)
        return
    replace(found, phase="on").write(run.folder)
    if not found.left:
        settle(run)


def _require_answer(engine: Engine) -> None:
    """Unavailable where the target cannot be asked anything."""
    try:
        engine.nodes()
    except UserError as error:
        if has_no_room(error):
            raise Unavailable(error.findings, exit_code=error.exit_code) from None
        # What else is wrong there is said by the start itself.


def has_no_room(error: UserError) -> bool:
    """Whether a target does not answer, or has no node for the job now and may have some later."""
    return is_away(error) or all(finding.id in _NO_ROOM for finding in error.findings)


def _refused_by_all(found: Fallback, error: Unavailable) -> Unavailable:
    tried = [
        Finding(
            "passed-over",
            f"`{each.target}` was tried before: {each.reason}",
            f"check it now: fairway doctor {each.target}",
        )
        for each in found.tries
        if each.reason
    ]
    return type(error)([*error.findings, *tried], exit_code=error.exit_code)


def _leave(run: RunFolder, found: Fallback) -> None:
    """Cancels the run where it is, and sees that it has ended there."""
    _say(run, found, found.tries[-1].reason or "")
    engine_for(submitted_to(run)).cancel(run)
    target, status = found.tries[-1].target, known_state(run.folder) or RunState()
    if status.state in ("succeeded", "failed", "lost"):  # it was faster, or nobody saw how it ended
        _stay(run, found)
    elif status.state == "cancelled" and _has_begun(run):
        # What it has done there would be done twice.
        why = f"it started on {target} just before it was to leave, and was cancelled there"
        again = f"; run it there again: fairway retry {run.id}"
        state_files.write(run.folder, replace(status, reason=why + again))
        _stay(run, found)
    elif status.state == "cancelled":
        replace(found, phase="left").write(run.folder)
    else:
        message = f"{run.id} was cancelled on {target}, and is still {status.state} there"
        hint = f"it moves on once it has ended there: fairway wait {run.id}"
        raise UserError.of("not-cancelled", message, hint, exit_code=5)


def _has_begun(run: RunFolder) -> bool:
    """Whether any task of it has, by its own state: that of a run may be as old as its job."""
    tasks = (run.task_status(number) for number in range(_tasks(run)))
    return any(task.started is not None for task in tasks)


def _stay(run: RunFolder, found: Fallback) -> None:
    """It is on the target that it was to leave."""
    stayed = fallback.Try(found.tries[-1].target, found.tries[-1].began)
    replace(found, tries=(*found.tries[:-1], stayed), phase="on").write(run.folder)
    settle(run)


def _arrive(run: RunFolder, found: Fallback) -> None:
    """Removes what the target has of the run, and gives the run its files for the next one; all of
    it may have been done before."""
    if (run.folder / "engine.json").exists():
        engine_for(submitted_to(run)).remove(run)
        (run.folder / "engine.json").unlink()
    for path in run.folder.iterdir():
        if path.name in _STAYS:
            continue
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
    for name in fallback.FILES:
        new = run.folder / fallback.next_file(found.left[0], name)
        if new.exists():
            new.replace(run.folder / name)
    state_files.write(run.folder, RunState(tasks={"queued": _tasks(run)}))
    found.arrives(_now()).write(run.folder)


def _tasks(run: RunFolder) -> int:
    return read_record(run.folder / "run.json").tasks


def _write_end(run: RunFolder, state: str, reason: str | None) -> None:
    """The end of a run that is on no target."""
    counts = {"cancelled": _tasks(run)}
    state_files.write(run.folder, RunState(state, reason, ended=_now(), tasks=counts))


def _say(run: RunFolder, found: Fallback, why: str) -> None:
    target, following = found.tries[-1].target, found.left[0]
    _LOG.warning("%s moves from %s to %s: %s", run.id, target, following, printable(why))


def _now() -> float:
    return time.time()
