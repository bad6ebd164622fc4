"""Comparison of a plan with the one shown while some of the values that it reads were unknown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fairway_core.json_values import leaves
from fairway_core.review.attributes import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from fairway_core.review.attributes import AttributeChange
    from fairway_core.review.changes import Change, OutputChange
    from fairway_core.review.review import StackReview


def broken_promises(planned: StackReview, promised: StackReview) -> list[str]:
    """Returns the resources' addresses, and outputs, for which a plan differs from the promise.

    It may do less, if a value that was unknown turns out to be unchanged.
    """
    return [*_changes(planned, promised), *_outputs(planned.outputs, promised.outputs)]


def _changes(planned: StackReview, promised: StackReview) -> Iterator[str]:
    shown = {change.key: change for change in promised.planned}
    for change in planned.planned:
        known = shown.pop(change.key, None)
        if known is None or not _is_as_shown(change, known):
            yield change.address
    for known in shown.values():
        # It has no effect once its unknown values turn out to be unchanged.
        unknown = [_has_unknown(each.new) for each in known.attributes]
        if not unknown or not all(unknown):
            yield known.address


def _is_as_shown(change: Change, shown: Change) -> bool:
    fields = ("type", "provider", "actions", "moved_from", "import_id")
    return (
        all(getattr(change, field) == getattr(shown, field) for field in fields)
        and set(change.because) <= set(shown.because)
        and fits(change.created, shown.created)
        and _attributes_fit(change.attributes, shown.attributes)
    )


def _attributes_fit(found: Collection[AttributeChange], shown: Collection[AttributeChange]) -> bool:
    """Returns True if each change found was shown, or is part of one whose value was unknown."""
    known = {each.path: each for each in shown if each.new is not UNKNOWN}
    unknown = [each.path for each in shown if each.new is UNKNOWN]
    for each in found:
        before = known.pop(each.path, None)
        if before is not None:
            if not (fits(each.old, before.old) and fits(each.new, before.new)):
                return False
        elif not any(
            each.path == path or each.path.startswith((f"{path}.", f"{path}[")) for path in unknown
        ):
            return False
    return all(_has_unknown(each.new) for each in known.values())


def _outputs(found: Collection[OutputChange], shown: Collection[OutputChange]) -> Iterator[str]:
    known = {each.name: each for each in shown}
    for each in found:
        before = known.pop(each.name, None)
        if before is None or each.action is not before.action or not fits(each.new, before.new):
            yield each.name
    yield from (each.name for each in known.values() if not _has_unknown(each.new))


def fits(value: Any, shown: Any) -> bool:
    """Returns True if a value equals the one shown, in all parts that were known.

    >>> fits({"id": "7", "size": 2}, {"id": UNKNOWN, "size": 2}), fits([1], [2])
    (True, False)
    """
    if shown is UNKNOWN:
        return True
    if isinstance(shown, dict) and isinstance(value, dict):
        return value.keys() <= shown.keys() and all(
            fits(value[key], item) if key in value else item is UNKNOWN
            for key, item in shown.items()
        )
    if isinstance(shown, list) and isinstance(value, list):
        return len(value) == len(shown) and all(map(fits, value, shown))
    return type(value) is type(shown) and bool(value == shown)


def _has_unknown(value: Any) -> bool:
    return UNKNOWN in leaves(value)
