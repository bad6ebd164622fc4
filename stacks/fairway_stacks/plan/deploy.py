"""`fairway deploy`: applies what was approved, and stops if a plan differs from it.

Plans each stack again, compares its review's digest with the approved one, and applies exactly that
plan. A stack that waited for another one's outputs at the review is planned once they exist: on a
terminal all remaining changes are shown and confirmed, elsewhere the deployment stops and writes
their review, which is to be approved next. That approval also covers stacks that wait in it, as
shown there: so a change takes two approvals at most. A stack planned without some of its locks is
planned again right after: a plan that only restores them is applied, any other needs approval.

Exits with 2 if something is not as approved, with 3 if data would be lost, and with 5 if Terraform
failed; stacks that were applied stay applied.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NoReturn

from fairway_core.findings import UserError
from fairway_core.review.changes import Action
from fairway_core.review.promise import broken_promises
from fairway_stacks.app import usual_outdir
from fairway_stacks.plan.planning import (
    StackPlan,
    live_terraform,
    lock_outdir,
    plan_folder,
    plan_in_turn,
    prepare_and_plan,
)
from fairway_stacks.plan.review import (
    AGAIN,
    Approved,
    Reviewer,
    approved_of,
    data_loss,
    in_deploy_order,
    read_approved,
    require_writable,
    write_report,
)
from fairway_stacks.plan.stacks import StackFolder, print_progress, synthesize
from fairway_stacks.plan.terraform import require

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from pathlib import Path

    from fairway_core.review.review import Review, StackReview

# The most names of resources in a message.
_MOST_NAMES = 5


@dataclass(frozen=True)
class Person:
    """The user at the terminal: `show` prints a review, `ask` returns whether to proceed.

    `ask` is None if nobody can be asked. `before` gets each plan, as `terraform show -json` prints
    it, before it is applied, and raises UserError if that cannot succeed.
    """

    show: Callable[[Review], None]
    ask: Callable[[str], bool] | None = None
    before: Callable[[Mapping[str, Any]], None] | None = None


def deploy(
    environment: str | None,
    approved: Path | None,
    person: Person,
    *,
    allow: Sequence[str],
    outputs_file: Path | None = None,
    report: Path | None = None,
    state: bool = False,
) -> None:
    """Deploys the stacks of the review in `approved`, each as it was approved.

    With `state` it is only the account that holds the state of the others.

    Without `approved` the user is shown the review, and asked. `allow` holds the addresses whose
    loss is accepted. Writes the stacks' outputs to `outputs_file`, and into `report` the review
    that is to be approved next. Raises UserError if something is not as approved.
    """
    known = read_approved(approved) if approved else {}
    if not known and person.ask is None:
        message = "nothing was approved, and there is no terminal to ask on"
        raise UserError.of("no-approval", message, f"{AGAIN}, then --approved DIR/review.json")
    _allowed_before(known, allow)
    require()
    require_writable(report)
    if outputs_file:
        _require_writable_file(outputs_file)
    with lock_outdir(), plan_folder(None) as folder:
        stacks = synthesize(environment, usual_outdir(), state=state)
        one = _Deployment(stacks, Reviewer(allow=allow), folder, person, report)
        one.run(known or one.approved_by_person())
        if outputs_file:
            outputs = {stack.name: live_terraform(stack).outputs() for stack in stacks}
            outputs_file.write_text(json.dumps(outputs, indent=2), encoding="utf-8")


def _require_writable_file(file: Path) -> None:
    """Raises OSError if the file cannot be written, before anything is applied; leaves none."""
    is_new = not file.exists()
    file.open("a").close()
    if is_new:
        file.resolve().unlink()  # and not a link to it


def _allowed_before(known: Mapping[str, Approved], allow: Collection[str]) -> None:
    """Raises UserError if the approved review itself loses data that `allow` does not name."""
    lost = [
        f"{stack}: {address}"
        for stack, each in known.items()
        for address in each.losses
        if address not in allow
    ]
    if lost:
        raise data_loss(f"data would be lost, and nothing was done: {', '.join(lost)}")


@dataclass(frozen=True)
class _Deployment:
    """One run of `fairway deploy`, on the stacks in their usual order."""

    stacks: Sequence[StackFolder]
    reviewer: Reviewer
    folder: Path
    person: Person
    report: Path | None

    def approved_by_person(self) -> dict[str, Approved]:
        """Shows the known changes of all stacks, and asks for approval."""
        found = self.reviewer.review(self._plan_all())
        self._agreed(found, "the stacks that are planned here")
        return approved_of(found)

    def run(self, approved: Mapping[str, Approved]) -> None:
        """Applies each stack in its turn."""
        done: set[str] = set()
        while left := [s for s in in_deploy_order(self.stacks, approved) if s.name not in done]:
            stack = left[0]
            known = approved.get(stack.name, Approved("", ""))
            if known.state == "waiting" and known.promised is None:
                approved = {**approved, **self._approved_now(stack, left)}
                continue
            if known.state == "waiting":
                self._as_promised(stack, known.promised)
            elif known.state == "planned":
                self._as_approved(stack, known)
            else:
                failed = known.state == "failed"
                why = "its plan had failed" if failed else "it is not in the review"
                raise UserError.of("not-approved", f"{stack.name} was not approved: {why}", AGAIN)
            done.add(stack.name)

    def _as_approved(self, stack: StackFolder, known: Approved) -> None:
        plan, found = self._plan(stack)
        if found.stacks[0].digest != known.digest and not _is_done(found.stacks[0]):
            self.person.show(found)
            what = "the plan is not the one that was approved; nothing of it was done"
            raise UserError.of("not-as-approved", f"{stack.name}: {what}", AGAIN)
        self._apply(stack, plan, found)

    def _as_promised(self, stack: StackFolder, promised: StackReview | None) -> None:
        """Applies a stack that was reviewed while some of its inputs were unknown."""
        plan, found = self._plan(stack)
        self._stop_where_it_waits(plan, found.stacks[0])
        differ = broken_promises(found.stacks[0], promised) if promised else []
        if differ:
            message = f"{stack.name} would do something other than what was shown: {_some(differ)}"
            self._agreed_after_all(found, stack.name, message)
        self._apply(stack, plan, found)

    def _approved_now(self, stack: StackFolder, left: Sequence[StackFolder]) -> dict[str, Approved]:
        """Gets approval for a stack that waited at the review, and whose inputs should now exist.

        The user is shown all remaining changes, and asked once for them.
        """
        if self.person.ask is None:
            self._stop_for_approval(
                f"{stack.name} waited when the review was made, so its plan has not been reviewed"
            )
        plans = plan_in_turn(left, self.folder, self.reviewer.allow)
        found = self.reviewer.review(plans)
        self._stop_where_it_waits(plans[0], found.stacks[0])
        if any(each.changes or each.outputs for each in found.stacks):
            self._agreed(found, " and ".join(each.name for each in left))
        return approved_of(replace(found, continues=True))

    def _plan_all(self) -> list[StackPlan]:
        return plan_in_turn(self.stacks, self.folder, self.reviewer.allow)

    def _plan(self, stack: StackFolder) -> tuple[StackPlan, Review]:
        print_progress(f"{stack.name}: plan")
        terraform, allow = live_terraform(stack), self.reviewer.allow
        plan = prepare_and_plan(terraform, self.folder, lock=True, allow=allow)
        return plan, self.reviewer.review([plan])

    def _stop_where_it_waits(self, plan: StackPlan, found: StackReview) -> None:
        if plan.error:
            raise plan.error
        if plan.waits:
            names = ", ".join(found.waits_for)
            raise UserError.of("still-waiting", f"{plan.stack} needs outputs of {names}", AGAIN)

    def _stop_for_approval(self, message: str) -> NoReturn:
        """Stops after writing the review of all that is left to do."""
        if self.report is None:
            hint = "deploy again with --report DIR, and have DIR/review.json approved"
            raise UserError.of("not-approved", message, hint)
        found = self.reviewer.review(self._plan_all())
        write_report(replace(found, continues=True), self.report)
        file = self.report / "review.json"
        hint = f"approve {file}, then: fairway deploy --approved {file}"
        raise UserError.of("not-approved", message, hint)

    def _agreed(self, found: Review, what: str) -> None:
        """Shows the review, and asks. Raises UserError if it is not approved."""
        self.person.show(found)
        self._stop_where_it_must(found, what)
        if self.person.ask is None or not self.person.ask(f"apply {what}?"):
            raise UserError.of("not-approved", f"{what}: not approved, and not done", AGAIN)

    def _agreed_after_all(self, found: Review, what: str, message: str) -> None:
        """Calls `_agreed` for unapproved changes, or stops if nobody can be asked."""
        if self.person.ask is None:
            self._stop_for_approval(message)
        print_progress(message)
        self._agreed(found, what)

    def _stop_where_it_must(self, found: Review, what: str) -> None:
        if found.unapproved_losses:
            raise data_loss(f"{what}: data would be lost; nothing of it was done")
        if found.rejected_by_azure:
            raise UserError(found.rejected_by_azure)

    def _apply(self, stack: StackFolder, plan: StackPlan, found: Review) -> None:
        if found.unapproved_losses:
            self.person.show(found)
        self._stop_where_it_must(found, stack.name)
        if plan.error:
            raise plan.error
        if _is_done(found.stacks[0]) and not found.stacks[0].drift:
            print_progress(f"{stack.name}: no changes")
            return
        if self.person.before is not None:
            self.person.before(json.loads(plan.review.read_text(encoding="utf-8")))
        print_progress(f"{stack.name}: apply")
        try:
            live_terraform(stack).apply(plan.file)
            if plan.unlocked:
                self._put_back(stack, plan.unlocked)
        except UserError:
            if plan.unlocked:
                print_progress(
                    f"{stack.name}: without {_some(plan.unlocked)}, until the next plan is applied"
                )
            raise

    def _put_back(self, stack: StackFolder, locks: Sequence[str]) -> None:
        """Creates the locks without which the stack was applied: its approval includes them."""
        plan, found = self._plan(stack)
        [planned] = found.stacks
        more = [
            each.address
            for each in planned.changes
            if each.action is not Action.CREATE or each.address not in locks
        ]
        more += [each.name for each in planned.outputs]
        if more:
            message = f"{stack.name} would do more than put {_some(locks)} back: {_some(more)}"
            self._agreed_after_all(found, stack.name, message)
        self._apply(stack, plan, found)


def _is_done(stack: StackReview) -> bool:
    """Returns True if nothing is left to do, as after a deployment that stopped later."""
    return stack.state == "planned" and not (stack.changes or stack.outputs)


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return ", ".join(names[:_MOST_NAMES]) + more
