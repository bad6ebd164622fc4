"""What would become of a stack's outputs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fairway_core.review.attributes import masked
from fairway_core.review.changes import Action
from fairway_core.secret_values import is_secret_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fairway_core.review.plan import Plan

_ACTIONS = {
    ("create",): Action.CREATE,
    ("update",): Action.CHANGE,
    ("delete",): Action.DESTROY,
}


@dataclass(frozen=True)
class OutputChange:
    """One output: `old` and `new` are plain data, HIDDEN or UNKNOWN."""

    name: str
    action: Action
    old: Any
    new: Any


def output_changes(plan: Plan) -> Iterator[OutputChange]:
    """The outputs that change, by name."""
    for name, change in sorted(plan.output_changes.items()):
        action = _ACTIONS.get(tuple(change["actions"]))
        if action is not None:
            secret = is_secret_name(name)
            old = masked(change.get("before"), secret or change.get("before_sensitive"))
            new = masked(
                change.get("after"),
                secret or change.get("after_sensitive"),
                change.get("after_unknown"),
            )
            yield OutputChange(name, action, old, new)
