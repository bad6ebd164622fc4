"""Reviews: what plans would do, stack by stack, compared with a base."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fairway_core.checks import check_plan
from fairway_core.findings import Finding, Severity, UserError
from fairway_core.review.changes import (
    Action,
    Change,
    OutputChange,
    changes_of,
    digest_of,
    digest_of_stack,
    drift_of,
    output_changes,
)
from fairway_core.review.plan import ROLES, UNLOCKED

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from fairway_core.cost.prices import Prices
    from fairway_core.review.attributes import AttributeChange
    from fairway_core.review.costs import CostReview
    from fairway_core.review.plan import Plan

REFUSED, DATA_LOST = 2, 3
"""Exit codes, see `Review.exit_code`."""

LOSS = "data-loss"
"""The check whose findings mean that data would be lost."""

_IDENTITY = "azurerm_user_assigned_identity"


@dataclass(frozen=True)
class Loss:
    """A change that would lose data, and how, as a sentence about its address.

    It is `allowed` if `--allow` names the address; `forced` are the attributes that force it.
    """

    stack: str
    address: str
    action: Action
    because: tuple[str, ...]
    how: str
    allowed: bool = False
    forced: tuple[AttributeChange, ...] = ()


@dataclass(frozen=True)
class StackReview:
    """The review of one stack.

    `state` is `planned`, `failed` if Terraform stopped before the plan was complete, or `waiting`
    if stacks that it reads are not deployed yet; it is `promised` if its plan is complete except
    for the values of their outputs. `in_base` are changes that the base's plan would make too, and
    `only_in_base` those that only the base's would make. `format_only` counts resources that
    Terraform reads in another form than it wrote them, although no value differs.
    """

    stack: str
    state: str
    digest: str
    changes: tuple[Change, ...] = ()
    in_base: tuple[Change, ...] = ()
    only_in_base: tuple[Change, ...] = ()
    drift: tuple[Change, ...] = ()
    format_only: int = 0
    outputs: tuple[OutputChange, ...] = ()
    findings: tuple[Finding, ...] = ()
    losses: tuple[Loss, ...] = ()
    waits_for: tuple[str, ...] = ()
    promised: bool = False
    terraform_version: str = ""

    @property
    def planned(self) -> tuple[Change, ...]:
        """All changes of its plan, whether the base's plan has them or not."""
        return *self.changes, *self.in_base

    def totals(self) -> Counter[Action]:
        """Counts the resources by action."""
        return _totals(self.planned)


@dataclass(frozen=True)
class Review:
    """The reviews of all stacks, with changes relative to a base if it is `compared`.

    `findings` are those that belong to no single stack. A review that `continues` a stopped
    deployment covers the rest of it: approving it also approves what it promises.
    """

    stacks: tuple[StackReview, ...]
    digest: str
    compared: bool = False
    cost: CostReview | None = None
    findings: tuple[Finding, ...] = ()
    continues: bool = False

    @property
    def losses(self) -> tuple[Loss, ...]:
        """The changes that would lose data, allowed or not."""
        return tuple(loss for stack in self.stacks for loss in stack.losses)

    @property
    def unapproved_losses(self) -> tuple[Loss, ...]:
        """The losses that are not allowed."""
        return tuple(loss for loss in self.losses if not loss.allowed)

    @property
    def rejected_by_azure(self) -> tuple[Finding, ...]:
        """Findings on changes that Azure or the provider would refuse in the middle of an apply."""
        return tuple(
            finding
            for stack in self.stacks
            for finding in stack.findings
            if finding.severity is Severity.ERROR and finding.id != LOSS
        )

    @property
    def exit_code(self) -> int:
        """3 if data would be lost without permission, 2 if Azure would refuse a change, else 0."""
        return DATA_LOST if self.unapproved_losses else REFUSED if self.rejected_by_azure else 0

    def totals(self) -> Counter[Action]:
        """Counts the resources by action in all stacks, also for changes that are `in_base`."""
        return _totals(change for stack in self.stacks for change in stack.planned)


def _totals(changes: Iterable[Change]) -> Counter[Action]:
    found = Counter(dict.fromkeys(Action, 0))
    found.update(change.action for change in changes)
    return found


def review(
    plans: Sequence[Plan],
    *,
    base: Sequence[Plan] = (),
    allow: Collection[str] = (),
    prices: Prices | None = None,
    left: Collection[str] = (),
) -> Review:
    """Returns the review of the plans; changes that are in the plans of `base` too are separated.

    `allow` has addresses of resources whose loss is accepted. Costs are left out without `prices`.
    `left` names deployed environments without a file. Raises UserError for two plans of one stack.
    """
    _each_once(plans)
    _each_once(base)
    before = {plan.stack: {each.key: each for each in changes_of(plan)} for plan in base}
    own = frozenset(_own_identities(plans))
    stacks = tuple(
        _review_stack(
            plan,
            before.get(plan.stack, {}),
            check_plan(
                {"resource_changes": plan.changes, "output_changes": plan.output_changes},
                others=[each for other in plans if other is not plan for each in other.changes],
                own=own,
            ),
            compared=bool(base),
            allow=allow,
        )
        for plan in plans
    )
    cost = None
    if prices is not None:
        from fairway_core.review.costs import review_costs

        changes = (change for stack in stacks for change in stack.changes)
        cost = review_costs(plans, changes, prices)
    digest = digest_of(stack.digest for stack in stacks)
    planned = {*_environments(plans)}
    new = ", ".join(f"`{each}`" for each in sorted(planned)) or "these"
    findings = tuple(
        _warning(
            "environment-left",
            f"the environment `{name}` would stay in Azure and continue to cost money: no file "
            f"describes it any more, and {new} would be created beside it, with none of its data",
            f"a name cannot be changed: keep `name: {name}`, or copy the data over and then "
            f"tear `{name}` down with its old file (docs/teardown.md)",
        )
        for name in sorted({*left, *_environments(base)} - planned)
    )
    return Review(stacks, digest, bool(base), cost, findings)


def _environments(plans: Sequence[Plan]) -> Iterator[str]:
    """Yields the environments of Fairway's own stacks, which are named `ENVIRONMENT-ROLE`."""
    for plan in plans:
        name, _, role = plan.stack.rpartition("-")
        if name and role in ROLES:
            yield name


def _own_identities(plans: Sequence[Plan]) -> Iterator[str]:
    """Yields the known principal ids of the environment's identities."""
    for plan in plans:
        for each in plan.changes:
            if each["type"] == _IDENTITY:
                for side in ("before", "after"):
                    attributes = each["change"].get(side) or {}
                    if isinstance(attributes.get("principal_id"), str):
                        yield attributes["principal_id"]


def _review_stack(
    plan: Plan,
    before: Mapping[tuple[str, str, str], Change],
    found: Sequence[Finding],
    *,
    compared: bool,
    allow: Collection[str],
) -> StackReview:
    state = "waiting" if plan.waits_for else "failed" if plan.errored else "planned"
    changes, outputs = list(changes_of(plan)), tuple(output_changes(plan))
    new, in_base = changes, []
    only_in_base: Iterable[Change] = ()
    if compared:
        new = [each for each in changes if not _is_same(each, before.get(each.key))]
        in_base = [each for each in changes if _is_same(each, before.get(each.key))]
        keys = {each.key for each in changes}
        only_in_base = (each for key, each in before.items() if key not in keys)
    drift = tuple(drift_of(plan))
    lost = {finding.path: finding.message for finding in found if finding.id == LOSS}
    findings = [one for one in found if one.id != LOSS or one.path not in allow]
    return StackReview(
        stack=plan.stack,
        state=state,
        digest=digest_of_stack(plan.stack, state, changes, outputs),
        changes=tuple(new),
        in_base=tuple(in_base),
        only_in_base=tuple(only_in_base),
        drift=drift,
        format_only=len(plan.drift) - len(drift),
        outputs=outputs,
        findings=(*_shortcomings(plan, state), *findings),
        losses=tuple(
            Loss(
                *(each.stack, each.named, each.action, each.because, lost[each.named]),
                each.named in allow,
                each.forced,
            )
            for each in changes
            if each.named in lost
        ),
        waits_for=plan.waits_for,
        promised=plan.promised,
        terraform_version=str(plan.data.get("terraform_version") or ""),
    )


def _shortcomings(plan: Plan, state: str) -> list[Finding]:
    """Returns a warning if a plan is incomplete, or leaves locks out."""
    if left_out := plan.data.get(UNLOCKED):
        locks = ", ".join(f"`{address}`" for address in left_out)
        found = _warning(
            "left-unlocked",
            f"{locks} would not be there once {plan.stack} is applied: Azure deletes nothing "
            "below a lock",
            "`fairway deploy` puts it back right after; so does the next plan of this stack",
        )
    elif state == "failed":
        found = _warning(
            "failed-plan",
            f"Terraform stopped early on {plan.stack}: more would change than is shown",
            "read the output of `terraform plan`; if data would be lost too, the cause "
            "is often `prevent_destroy`, which refuses to delete what is protected",
        )
    elif plan.data.get("complete") is False and state == "planned":
        found = _warning(
            "partial-plan",
            f"the plan of {plan.stack} is incomplete",
            "plan again without `-target`, or once more after this one is applied",
        )
    else:
        return []
    return [found]


def _warning(id: str, message: str, hint: str) -> Finding:  # noqa: A002
    return Finding(id, message, hint, severity=Severity.WARNING)


def _is_same(change: Change, other: Change | None) -> bool:
    """Returns True if two plans would make the same change of a resource."""
    fields = ("actions", "attributes", "created", "because", "moved_from", "import_id")
    return other is not None and all(
        getattr(change, field) == getattr(other, field) for field in fields
    )


def _each_once(plans: Sequence[Plan]) -> None:
    seen = set()
    for plan in plans:
        if plan.stack in seen:
            message = f"two plans are of the stack `{plan.stack}`"
            raise UserError.of("two-plans", message, "name them: STACK=FILE")
        seen.add(plan.stack)
