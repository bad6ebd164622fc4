"""A review: what plans would do, stack by stack, set against what was there before."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fairway_core.checks import check_plan
from fairway_core.findings import Finding, Severity, UserError
from fairway_core.review.changes import Action, Change, changes_of, drift_of
from fairway_core.review.digest import digest_of, digest_of_stack
from fairway_core.review.outputs import OutputChange, output_changes

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from fairway_core.cost.prices import Prices
    from fairway_core.review.costs import CostReview
    from fairway_core.review.plan import Plan

LOSS = "data-loss"
"""The check whose findings mean that data would be lost."""


@dataclass(frozen=True)
class StackReview:
    """What becomes of one stack.

    `state` is `planned`, `failed` where Terraform gave up before the plan was whole, or
    `waiting` where stacks that it reads are not deployed yet. `pending` is what the base's
    plan would do as well, and `dropped` what only that would do. `reread` counts resources
    that Terraform reads in another form than it wrote them, without a value that differs.
    """

    stack: str
    state: str
    digest: str
    changes: tuple[Change, ...] = ()
    pending: tuple[Change, ...] = ()
    dropped: tuple[Change, ...] = ()
    drift: tuple[Change, ...] = ()
    reread: int = 0
    outputs: tuple[OutputChange, ...] = ()
    findings: tuple[Finding, ...] = ()
    losses: tuple[Change, ...] = ()
    waits_for: tuple[str, ...] = ()
    terraform_version: str = ""


@dataclass(frozen=True)
class Review:
    """Every stack; `allowed` are the addresses of which the loss is meant."""

    stacks: tuple[StackReview, ...]
    digest: str
    allowed: frozenset[str] = frozenset()
    compared: bool = False
    cost: CostReview | None = None

    @property
    def losses(self) -> tuple[Change, ...]:
        """What holds data and would be destroyed or replaced, allowed or not."""
        return tuple(change for stack in self.stacks for change in stack.losses)

    @property
    def lost(self) -> tuple[Change, ...]:
        """Of these, what nobody allowed."""
        return tuple(change for change in self.losses if change.address not in self.allowed)

    def totals(self) -> dict[Action, int]:
        """How many resources each action is for, in all stacks, pending ones too."""
        counts = dict.fromkeys(Action, 0)
        for stack in self.stacks:
            for change in (*stack.changes, *stack.pending):
                counts[change.action] += 1
        return counts


def review(
    plans: Sequence[Plan],
    *,
    base: Sequence[Plan] = (),
    allow: Collection[str] = (),
    prices: Prices | None = None,
) -> Review:
    """What the plans would do; with `base` what its plans would do already is set apart.

    `allow` holds addresses of resources whose loss is meant. Costs are left out without
    `prices`. Raises UserError where two plans are of one stack.
    """
    _each_once(plans)
    _each_once(base)
    before = {plan.stack: {each.key: each for each in changes_of(plan)} for plan in base}
    stacks = tuple(
        _review_stack(plan, before.get(plan.stack, {}), compared=bool(base), allow=allow)
        for plan in plans
    )
    cost = None
    if prices is not None:
        from fairway_core.review.costs import review_costs

        changes = (change for stack in stacks for change in stack.changes)
        cost = review_costs(plans, changes, prices)
    digest = digest_of(stack.digest for stack in stacks)
    return Review(stacks, digest, frozenset(allow), bool(base), cost)


def _review_stack(
    plan: Plan,
    before: Mapping[tuple[str, str, str], Change],
    *,
    compared: bool,
    allow: Collection[str],
) -> StackReview:
    state = "waiting" if plan.waits_for else "failed" if plan.errored else "planned"
    changes, outputs = list(changes_of(plan)), tuple(output_changes(plan))
    new, pending = changes, []
    dropped: Iterable[Change] = ()
    if compared:
        new = [each for each in changes if not _is_same(each, before.get(each.key))]
        pending = [each for each in changes if _is_same(each, before.get(each.key))]
        keys = {each.key for each in changes}
        dropped = (each for key, each in before.items() if key not in keys)
    drift, found = tuple(drift_of(plan)), check_plan({"resource_changes": plan.changes})
    lost = {finding.path for finding in found if finding.id == LOSS}
    findings = [one for one in found if one.id != LOSS or one.path not in allow]
    return StackReview(
        stack=plan.stack,
        state=state,
        digest=digest_of_stack(plan.stack, state, changes, outputs),
        changes=tuple(new),
        pending=tuple(pending),
        dropped=tuple(dropped),
        drift=drift,
        reread=len(plan.drift) - len(drift),
        outputs=outputs,
        findings=(*_shortcomings(plan, state), *findings),
        losses=tuple(each for each in changes if each.address in lost),
        waits_for=plan.waits_for,
        terraform_version=str(plan.data.get("terraform_version") or ""),
    )


def _shortcomings(plan: Plan, state: str) -> list[Finding]:
    """That a plan is not all that there is."""
    if state == "failed":
        return [
            Finding(
                "failed-plan",
                f"Terraform gave up on {plan.stack}: this is not all that would change",
                "look at what `terraform plan` says; `prevent_destroy` refuses to delete what is "
                "protected",
                severity=Severity.WARNING,
            )
        ]
    if plan.data.get("complete") is False and state == "planned":
        return [
            Finding(
                "partial-plan",
                f"the plan of {plan.stack} leaves something for later",
                "plan again without `-target`, or once more after this one is applied",
                severity=Severity.WARNING,
            )
        ]
    return []


def _is_same(change: Change, other: Change | None) -> bool:
    """Whether two plans would do the same with a resource."""
    return other is not None and (
        change.action,
        change.attributes,
        change.created,
        change.because,
        change.moved_from,
    ) == (other.action, other.attributes, other.created, other.because, other.moved_from)


def _each_once(plans: Sequence[Plan]) -> None:
    seen = set()
    for plan in plans:
        if plan.stack in seen:
            raise UserError.of(
                "two-plans",
                f"two plans are of the stack `{plan.stack}`",
                "name them: STACK=FILE",
            )
        seen.add(plan.stack)
