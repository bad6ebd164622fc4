"""A review as plain data, for programs; its form changes only with `version`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fairway_core.cost.meters import HOURS_A_MONTH
from fairway_core.review.attributes import HIDDEN, UNKNOWN

if TYPE_CHECKING:
    from fairway_core.findings import Finding
    from fairway_core.review.attributes import AttributeChange
    from fairway_core.review.changes import Change
    from fairway_core.review.costs import CostReview
    from fairway_core.review.outputs import OutputChange
    from fairway_core.review.review import Review, StackReview

_VERSION = 1


def review_facts(review: Review) -> dict[str, Any]:
    """The review; money an hour, null for what is not known, and no secret anywhere."""
    return {
        "version": _VERSION,
        "digest": review.digest,
        "data_loss": [
            {
                "stack": loss.change.stack,
                "address": loss.address,
                "action": str(loss.change.action),
                "because": list(loss.change.because),
                "how": loss.how,
                "allowed": loss.address in review.allowed,
            }
            for loss in review.losses
        ],
        "totals": {str(action): count for action, count in review.totals().items()},
        "compared": review.compared,
        "continues": review.continues,
        "findings": [_finding(finding) for finding in review.findings],
        "stacks": [_stack(stack) for stack in review.stacks],
        "cost": _cost(review.cost) if review.cost else None,
    }


def value_facts(value: Any) -> Any:
    """A value whose markers are written as `{"sensitive": true}` or `{"unknown": true}`."""
    if value is HIDDEN:
        return {"sensitive": True}
    if value is UNKNOWN:
        return {"unknown": True}
    if isinstance(value, dict):
        return {key: value_facts(item) for key, item in value.items()}
    if isinstance(value, list):
        return [value_facts(item) for item in value]
    return value


def _stack(stack: StackReview) -> dict[str, Any]:
    return {
        "stack": stack.stack,
        "state": stack.state,
        "waits_for": list(stack.waits_for),
        "promised": stack.promised,
        "digest": stack.digest,
        "terraform_version": stack.terraform_version,
        "findings": [_finding(finding) for finding in stack.findings],
        "changes": [_change(change) for change in stack.changes],
        "pending": [_change(change) for change in stack.pending],
        "dropped": [_change(change) for change in stack.dropped],
        "drift": [_change(change) for change in stack.drift],
        "reread": stack.reread,
        "outputs": [_output(output) for output in stack.outputs],
    }


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "id": finding.id,
        "severity": str(finding.severity),
        "path": finding.path,
        "message": finding.message,
        "hint": finding.hint,
    }


def _change(change: Change) -> dict[str, Any]:
    return {
        "address": change.address,
        "type": change.type,
        "provider": change.provider,
        "action": str(change.action),
        "because": list(change.because),
        "reason": change.reason,
        "moved_from": change.moved_from or None,
        "deposed": change.deposed or None,
        "attributes": [_attribute(attribute) for attribute in change.attributes],
        "created": value_facts(change.created),
    }


def _attribute(attribute: AttributeChange) -> dict[str, Any]:
    return {
        "path": attribute.path,
        "old": value_facts(attribute.old),
        "new": value_facts(attribute.new),
        "forces_replacement": attribute.forces,
    }


def _output(output: OutputChange) -> dict[str, Any]:
    return {
        "name": output.name,
        "action": str(output.action),
        "old": value_facts(output.old),
        "new": value_facts(output.new),
    }


def _cost(cost: CostReview) -> dict[str, Any]:
    known, changes = cost.known
    return {
        "currency": cost.currency,
        "hourly_difference": _rounded(cost.hourly),
        "hourly_difference_at_minimum": _rounded(cost.hourly_at_minimum),
        "monthly_difference": _monthly(cost.hourly),
        "monthly_difference_at_minimum": _monthly(cost.hourly_at_minimum),
        "known": {
            "changes": known,
            "of": changes,
            "share": round(known / changes, 4) if changes else 1.0,
        },
        "changes": [
            {
                "stack": each.stack,
                "address": each.address,
                "what": each.what,
                "hourly_before": _rounded(each.before),
                "hourly_after": _rounded(each.after),
                "hourly_difference": _rounded(each.difference),
                "hourly_difference_at_minimum": _rounded(each.at_minimum),
                "whole": each.whole,
            }
            for each in cost.changes
        ],
        "prices": [
            {"source": source, "date": date}
            for source, date in sorted({(p.source, p.date.isoformat()) for p in cost.prices})
        ],
    }


def _monthly(hourly: float | None) -> float | None:
    return None if hourly is None else _rounded(hourly * HOURS_A_MONTH)


def _rounded(amount: float | None) -> float | None:
    return None if amount is None else round(amount, 6)
