"""`fairway destroy`: destroys stacks as they were reviewed and approved, the last one first.

A stack reads the outputs of those before it, and its resources are used by the next: so the stacks
that read a stack are destroyed before it, and with it. Each plan is applied as it was shown. If
something is protected nothing is done: a deployment that shows it must first remove the protection.
Resources that hold data stay unless their addresses are allowed, as in a deployment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairway_core.findings import UserError
from fairway_stacks.app import usual_outdir
from fairway_stacks.plan.planning import (
    live_terraform,
    lock_outdir,
    plan_folder,
    plan_to_destroy,
)
from fairway_stacks.plan.review import (
    Reviewer,
    data_loss,
    read_approved,
    require_writable,
    write_report,
)
from fairway_stacks.plan.stacks import print_progress, synthesize
from fairway_stacks.plan.terraform import require

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from pathlib import Path

    from fairway_core.review.review import Review
    from fairway_stacks.plan.deploy import Person
    from fairway_stacks.plan.planning import StackPlan
    from fairway_stacks.plan.stacks import StackFolder

# The account that holds the state of an environment's stacks, where Fairway has made it.
_STATE = "state"
_AGAIN = "review it again: fairway destroy --report DIR"


def destroy(
    environment: str | None,
    roles: Collection[str],
    approved: Path | None,
    person: Person,
    *,
    allow: Sequence[str],
    report: Path | None = None,
) -> None:
    """Destroys the stacks of these roles and those that read them; without roles, all but the
    account of their state, whose role is `state` and stands alone.

    Their review is shown, and written to `report`. It must be approved, in the file `approved` or
    by the user, and `allow` holds the addresses whose loss is accepted. Raises UserError if it is
    not approved, or if something is protected.
    """
    known = read_approved(approved, _AGAIN) if approved else {}
    require()
    require_writable(report)
    with lock_outdir(), plan_folder(None) as folder:
        stacks = _chosen(synthesize(environment, usual_outdir(), state=_STATE in roles), roles)
        plans = []
        for stack in stacks:
            print_progress(f"{stack.name}: plan")
            plans.append(plan_to_destroy(live_terraform(stack), folder))
        found = Reviewer(allow=allow).review(plans)
        if report is not None:
            write_report(found, report)
        _stop_where_it_must(plans, found)
        going = [each for each in found.stacks if each.changes]
        if not going:
            print_progress("nothing is there to destroy")
            return
        differ = [
            each.stack
            for each in going
            if approved and (each.stack not in known or known[each.stack].digest != each.digest)
        ]
        if differ or found.unapproved_losses or not approved:
            person.show(found)
        if differ:
            message = f"{differ[0]}: what would be destroyed is not what was approved"
            raise UserError.of("not-as-approved", message, _AGAIN)
        if found.unapproved_losses:
            raise data_loss("data would be lost, and nothing was done")
        what = ", ".join(each.stack for each in going)
        if not approved and (person.ask is None or not person.ask(f"destroy {what}?")):
            hint = "on a terminal, answer with y; elsewhere --approved DIR/review.json"
            raise UserError.of("not-approved", "not approved, and nothing was done", hint)
        for stack, plan in zip(stacks, plans, strict=True):
            print_progress(f"{stack.name}: destroy")
            live_terraform(stack).apply(plan.file)


def _chosen(stacks: Sequence[StackFolder], roles: Collection[str]) -> list[StackFolder]:
    """Returns the stacks of the roles and all that read them, in the order of their destruction."""
    by_role = {stack.name.rpartition("-")[2]: stack.name for stack in stacks}
    for role in roles:
        if role not in by_role:
            message, hint = f"there is no stack `{role}`", f"one of: {', '.join(by_role)}, {_STATE}"
            if _STATE in roles:
                message, hint = f"`{_STATE}` goes alone, and not with `{role}`", "two commands"
            raise UserError.of("unknown-stack", message, hint)
    chosen = {by_role[role] for role in roles} or set(by_role.values())
    for stack in stacks:  # each after those that it reads
        if chosen.intersection(stack.dependencies):
            chosen.add(stack.name)
    return [stack for stack in reversed(stacks) if stack.name in chosen]


def _stop_where_it_must(plans: Sequence[StackPlan], found: Review) -> None:
    """Raises UserError if a plan is incomplete, as when Terraform refuses a protected resource, or
    if a lock would go: an undeployed `protect: false` in the file unlocks nothing."""
    for each in found.stacks:
        if any(change.address.startswith("azurerm_management_lock.") for change in each.changes):
            raise _protected(each.stack)
    for plan in plans:
        if plan.waits:
            message = f"{plan.stack} reads what is not deployed, so its plan cannot be made"
            hint = "deploy the environment as it is written now, and try again: fairway deploy"
            raise UserError.of("not-deployed", message, hint)
        if plan.error is None:
            continue
        if any("cannot be destroyed" in each.message for each in plan.error.findings):
            raise _protected(plan.stack)
        raise plan.error


def _protected(stack: str) -> UserError:
    message = f"{stack} holds what is protected, and nothing was done"
    hint = "write `protect: false` into the environment file, deploy that, and try again"
    return UserError.of("protected", message, hint)
