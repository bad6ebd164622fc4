"""Writes down who does what: in the run, and in the audit file of the server."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from fairway_core.findings import UserError
from fairway_runner.runs import actions
from fairway_web.roles import may, refused, visit

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from fairway_runner.runs.store import Run


def by() -> dict[str, str] | None:
    """Who asks, for a record; None for the one user of this machine."""
    person = visit().person
    return {"name": person.name, "id": person.id} if person.is_named else None


@contextmanager
def audited(action: str, about: Mapping[str, str]) -> Iterator[None]:
    """Writes a line when what is done inside has ended, with how it did: what it is about, and
    nothing of what was sent."""
    outcome = "failed"
    try:
        yield
        outcome = "done"
    except UserError as error:
        outcome = error.findings[0].id
        raise
    finally:
        _write(action, outcome, about)


@contextmanager
def noted(action: str, run: Run) -> Iterator[None]:
    """The same for a run, which keeps who did it."""
    with audited(action, {"run": run.id}):
        yield
        if (who := by()) is not None:
            actions.note(run.folder, action, who)


def require_steering(run: Run) -> None:
    """UserError where the person who asks may not cancel or retry this run."""
    if not may_steer(run):
        raise refused("steer-all")


def may_steer(run: Run) -> bool:
    """Whether it is theirs, or their role is enough for all."""
    if may("steer-all"):
        return True
    who = actions.submitter(run.folder)
    return may("steer") and who is not None and who["id"] == visit().person.id


def _write(action: str, outcome: str, about: Mapping[str, str]) -> None:
    file, person = visit().audit, visit().person
    if file is None:
        return
    facts = {"at": time.time(), "by": person.name, "id": person.id, "role": person.role.word}
    file.parent.mkdir(parents=True, exist_ok=True)
    actions.append(file, {**facts, "action": action, **about, "outcome": outcome})
