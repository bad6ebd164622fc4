"""Buttons and calls that change runs: who may, and the record of who did."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from fairway_core.findings import UserError
from fairway_runner.runs import labels
from fairway_runner.submit.rerun import retry, targets_of
from fairway_runner.targets.lookup import server_settings, uses_this_machine
from fairway_web.roles import may, noted, refused, request_context

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from fairway_core.target import Target
    from fairway_runner.runs.store import Run

T = TypeVar("T")


def may_steer(run: Run) -> bool:
    """True for a run of the person who asks, and for every run where their role is enough."""
    if may("steer-all"):
        return True
    who = labels.submitter(run.folder)
    return may("steer") and who is not None and who["id"] == request_context().person.id


def cancel_run(run: Run, task: str | None = None) -> None:
    """Ends it early, or one task of it; returns when that has ended."""
    with noted("cancel" if task is None else f"cancel task {task[:20]}", run):
        if not may_steer(run):
            raise refused("steer-all")
        run.cancel(task)


def retry_run(run: Run) -> dict[int, int]:
    """Runs its unsuccessful tasks again; see `retry`."""
    with noted("retry", run):
        if not may_steer(run):
            raise refused("steer-all")
        require_targets(targets_of(run))  # they may have been an Operator when they submitted it
        return retry(run)


def act_on_all(action: str, runs: Sequence[Run]) -> None:
    """Cancels or retries all of them; see `each_of`."""
    each_of(runs, cancel_run if action == "cancel" else retry_run)


def each_of(things: Iterable[T], act: Callable[[T], object]) -> None:
    """Acts on all of them, also where that fails for one; UserError that says which."""
    errors: list[UserError] = []
    for each in things:
        try:
            act(each)
        except UserError as error:
            errors.append(error)
    if errors:
        findings = [finding for error in errors for finding in error.findings]
        raise UserError(findings, exit_code=errors[0].exit_code)


def require_targets(targets: Sequence[Target]) -> None:
    """UserError for a target that the person who asks may not use: on this machine a program could
    read everything that the server can, its tokens for Azure too."""
    if may("here"):
        return
    if any(map(uses_this_machine, targets)):
        message = "your role does not let you run jobs on the machine of the server"
        hint = "name another target, or ask for the role Operator"
        raise UserError.of("missing-role", message, hint)
    offered = usable([each.name for each in targets])
    if lacking := [each.name for each in targets if each.name not in offered]:
        message = f"your role does not let you use the target `{lacking[0]}`"
        hint = "ask an Operator to add it to `serve: {targets: [NAME]}` in fairway.yaml"
        if known := server_settings().targets:
            hint = f"name one of these: {', '.join(known)}; or {hint}"
        raise UserError.of("missing-role", message, hint)


def usable(names: Iterable[str]) -> list[str]:
    """The targets of these on which the person who asks may submit jobs."""
    offered = server_settings().targets
    return [each for each in names if may("here") or each in offered]
