"""Reviews as plain data for programs, and a parser for data that untrusted code may have made."""

from __future__ import annotations

import datetime
import re
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from fairway_core.cost.meters import HOURS_A_MONTH
from fairway_core.findings import Finding, Severity, UserError
from fairway_core.json_values import DuplicateKey, is_deep, parse_json
from fairway_core.review.attributes import HIDDEN, UNKNOWN, AttributeChange
from fairway_core.review.changes import Action, Change, OutputChange
from fairway_core.review.costs import CostChange, CostReview, PriceSource
from fairway_core.review.review import Loss, Review, StackReview

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

_VERSION = 1
_LARGEST = 1 << 25


def review_to_json(review: Review) -> dict[str, Any]:
    """Returns the review as plain data, without secrets; amounts are per hour, null if unknown."""
    return {"version": _VERSION, **_REVIEW.write(review)}


def review_from_json(facts: Any) -> Review:
    """Parses the output of `review_to_json`. Raises ValueError for anything else."""
    try:
        if facts["version"] != _VERSION:
            raise ValueError("another version")
        found: Review = _REVIEW.read(facts)
        lost = _LOSSES.read(facts["data_loss"])
    except (AttributeError, KeyError, OverflowError, TypeError) as error:
        raise ValueError("no review") from error
    return replace(found, stacks=tuple(_with_losses(each, lost) for each in found.stacks))


def read_review(file: Path) -> Review:
    """Reads a review that `fairway plan --report` wrote.

    Raises UserError for anything else: untrusted code may have written the file.
    """
    try:
        if file.is_symlink() or not file.is_file():
            raise ValueError("no file")
        with file.open("rb") as stream:
            content = stream.read(_LARGEST + 1)
        if len(content) > _LARGEST or is_deep(content):
            raise ValueError("no review is so large")
        return review_from_json(parse_json(content))
    except (DuplicateKey, ValueError):
        raise UserError.of(
            "no-review", f"{file} is not a review", "fairway plan --report DIR writes one"
        ) from None


def _with_losses(stack: StackReview, lost: Sequence[Loss]) -> StackReview:
    """Returns the stack with its losses, each with the attributes that force it."""
    forced = {each.named: each.forced for each in reversed(stack.planned)}
    own = (each for each in lost if each.stack == stack.stack)
    losses = (replace(each, forced=forced.get(each.address, ())) for each in own)
    return replace(stack, losses=tuple(losses))


@dataclass(frozen=True)
class _Form:
    """Functions that write and read a value; reading raises an error for a value of another form.

    A form without `read` is for values that follow from others. `field` is the name in Python if
    the key differs; a missing key that `may_lack` is read as null.
    """

    write: Callable[[Any], Any]
    read: Any = None
    field: str = ""
    may_lack: bool = False


def _record(make: Callable[..., Any], keys: str, **forms: _Form) -> _Form:
    """Returns the form of an object with these keys, in order; text unless `forms` has another."""
    fields = [(key, forms.get(key, _TEXT)) for key in keys.split()]

    def write(value: Any) -> dict[str, Any]:
        return {key: form.write(getattr(value, form.field or key)) for key, form in fields}

    def read(facts: Any) -> Any:
        entries = {
            form.field or key: form.read(facts.get(key) if form.may_lack else facts[key])
            for key, form in fields
            if form.read
        }
        return make(**entries)

    return _Form(write, read)


def _list_of(item: _Form) -> _Form:
    return _Form(
        lambda values: [item.write(each) for each in values],
        lambda facts: tuple(item.read(each) for each in _only(list, facts)),
    )


def _only(kind: Any, facts: Any) -> Any:
    if not isinstance(facts, kind):
        raise TypeError("of another kind")
    return facts


def _like(pattern: str) -> _Form:
    """Returns the form of text that matches the pattern, and so can be shown without escaping."""

    def read(facts: Any) -> str:
        if not re.fullmatch(pattern, facts):
            raise ValueError(facts)
        return str(facts)

    return _Form(str, read)


def _rounded(amount: float | None) -> float | None:
    return None if amount is None else round(amount, 6)


def _amount(facts: Any) -> float | None:
    return None if facts is None else float(_only(int | float, facts))


def _exchanged(value: Any, pairs: Sequence[tuple[Any, Any]]) -> Any:
    """Returns the value with the first of each pair replaced by the second, at any depth."""
    for one, other in pairs:
        if value == one:
            return other
    if isinstance(value, dict):
        return {key: _exchanged(item, pairs) for key, item in value.items()}
    if isinstance(value, list):
        return [_exchanged(item, pairs) for item in value]
    return value


def _known(counts: tuple[int, int]) -> dict[str, float]:
    known, changes = counts
    share = round(known / changes, 4) if changes else 1.0
    return {"changes": known, "of": changes, "share": share}


def _stack(stack: str, **fields: Any) -> StackReview:
    """Returns the stack, with its name set in its changes."""
    for key in _OF_CHANGES:
        fields[key] = tuple(replace(each, stack=stack) for each in fields[key])
    return StackReview(stack, **fields)


_MARKERS = ((HIDDEN, {"sensitive": True}), (UNKNOWN, {"unknown": True}))
_OF_CHANGES = ("changes", "in_base", "only_in_base", "drift")

_TEXT = _Form(str, partial(_only, str))
_TEXTS = _list_of(_TEXT)
_TEXT_OR_NULL = _Form(lambda text: text or None, lambda facts: _only(str, facts or ""))
_FLAG = _Form(bool, lambda facts: facts is True)
_LATER_FLAG = replace(_FLAG, may_lack=True)  # missing from reviews of older branches
_AMOUNT = _Form(_rounded, _amount)
_ACTION = _Form(str, Action)
_DIGEST = _like(r"sha256:[0-9a-f]{64}")
_VALUE = _Form(
    partial(_exchanged, pairs=_MARKERS),
    partial(_exchanged, pairs=[(facts, marker) for marker, facts in _MARKERS]),
)

_FINDINGS = _list_of(
    _record(Finding, "id severity path message hint", severity=_Form(str, Severity))
)
_ATTRIBUTE = _record(
    AttributeChange,
    "path old new forces_replacement",
    old=_VALUE,
    new=_VALUE,
    forces_replacement=replace(_FLAG, field="forces"),
)
_CHANGE = _record(
    partial(Change, stack=""),
    "address type provider action actions because reason moved_from import_id deposed attributes"
    " created",
    action=_ACTION,
    actions=_TEXTS,
    because=_TEXTS,
    moved_from=_TEXT_OR_NULL,
    import_id=_TEXT_OR_NULL,
    deposed=_TEXT_OR_NULL,
    attributes=_list_of(_ATTRIBUTE),
    created=_VALUE,
)
_OUTPUT = _record(OutputChange, "name action old new", action=_ACTION, old=_VALUE, new=_VALUE)
_STACK = _record(
    _stack,
    "stack state waits_for promised digest terraform_version findings"
    " changes in_base only_in_base drift format_only outputs",
    state=_like("planned|failed|waiting"),
    waits_for=_TEXTS,
    promised=_LATER_FLAG,
    digest=_DIGEST,
    findings=_FINDINGS,
    **dict.fromkeys(_OF_CHANGES, _list_of(_CHANGE)),
    format_only=_Form(int, lambda facts: int(_amount(facts) or 0)),
    outputs=_list_of(_OUTPUT),
)
_LOSSES = _list_of(
    _record(
        Loss,
        "stack address action because how allowed",
        action=_ACTION,
        because=_TEXTS,
        allowed=_FLAG,
    )
)
_COST_CHANGE = _record(
    CostChange,
    "stack address what hourly_before hourly_after hourly_difference"
    " hourly_difference_at_minimum is_complete",
    hourly_before=replace(_AMOUNT, field="before"),
    hourly_after=replace(_AMOUNT, field="after"),
    hourly_difference=replace(_AMOUNT, field="difference"),
    hourly_difference_at_minimum=replace(_AMOUNT, field="at_minimum"),
    is_complete=_FLAG,
)
_MONTHLY = _Form(lambda hourly: _rounded(hourly and hourly * HOURS_A_MONTH))
_COST = _record(
    CostReview,
    "currency hourly_difference hourly_difference_at_minimum monthly_difference"
    " monthly_difference_at_minimum known changes prices",
    currency=_like("[A-Za-z]{3}"),
    hourly_difference=_Form(_rounded, field="hourly"),
    hourly_difference_at_minimum=_Form(_rounded, field="hourly_at_minimum"),
    monthly_difference=replace(_MONTHLY, field="hourly"),
    monthly_difference_at_minimum=replace(_MONTHLY, field="hourly_at_minimum"),
    known=_Form(_known),
    changes=_list_of(_COST_CHANGE),
    prices=_list_of(
        _record(PriceSource, "source date", date=_Form(str, datetime.date.fromisoformat))
    ),
)
_REVIEW = _record(
    Review,
    "digest data_loss totals compared continues findings stacks cost",
    digest=_DIGEST,
    data_loss=_Form(_LOSSES.write, field="losses"),
    totals=_Form(lambda totals: {str(action): count for action, count in totals().items()}),
    compared=_FLAG,
    continues=_LATER_FLAG,
    findings=_FINDINGS,
    stacks=_list_of(_STACK),
    cost=_Form(
        lambda cost: _COST.write(cost) if cost else None,
        lambda facts: _COST.read(facts) if facts else None,
    ),
)
