"""What buttons and calls do to runs: by whom they may, and written down."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairway_core.findings import UserError
from fairway_runner.submit.retry import retry, targets_of
from fairway_runner.targets.lookup import server_settings, uses_this_machine
from fairway_web.roles import may, noted, require_steering

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from fairway_core.target import Target
    from fairway_runner.runs.store import Run


def cancel_run(run: Run, task: str | None = None) -> None:
    """Ends it early, or one task of it; returns when that has ended."""
    with noted("cancel" if task is None else f"cancel task {task[:20]}", run):
        require_steering(run)
        run.cancel(task)


def retry_run(run: Run) -> dict[int, int]:
    """Runs its unsuccessful tasks again; see `retry`."""
    with noted("retry", run):
        require_steering(run)
        require_targets(targets_of(run))  # they may have been an Operator when they submitted it
        return retry(run)


def require_targets(targets: Sequence[Target]) -> None:
    """UserError for a target that the person who asks may not use: on this machine a program could
    read whatever the server can, its tokens for Azure too."""
    if may("here"):
        return
    if any(map(uses_this_machine, targets)):
        message = "your role does not let you run jobs on the machine of the server"
        hint = "name another target, or ask for the role Operator"
        raise UserError.of("missing-role", message, hint)
    offered = usable([each.name for each in targets])
    if refused := [each.name for each in targets if each.name not in offered]:
        message = f"your role does not let you use the target `{refused[0]}`"
        hint = "ask an Operator to add it to `serve: {targets: [NAME]}` in fairway.yaml"
        if known := server_settings().targets:
            hint = f"name one of these: {', '.join(known)}; or {hint}"
        raise UserError.of("missing-role", message, hint)


def usable(names: Iterable[str]) -> list[str]:
    """Those of some targets on which the person who asks may submit jobs."""
    offered = server_settings().targets
    return [each for each in names if may("here") or each in offered]
