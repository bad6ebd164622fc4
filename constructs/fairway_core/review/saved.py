"""A review read again from its JSON, which untrusted code may have written."""

from __future__ import annotations

import datetime
import re
from typing import TYPE_CHECKING, Any

from fairway_core.cost.prices import Price
from fairway_core.findings import Finding, Severity, UserError
from fairway_core.review.attributes import HIDDEN, UNKNOWN, AttributeChange
from fairway_core.review.changes import Action, Change
from fairway_core.review.costs import CostChange, CostReview
from fairway_core.review.outputs import OutputChange
from fairway_core.review.review import Loss, Review, StackReview
from fairway_core.review.untrusted import NO_JSON, KeyTwice, is_deep, parsed

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_LARGEST = 1 << 25
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_STATES = ("planned", "failed", "waiting")


def read_review(file: Path) -> Review:
    """The review in `file`, as `fairway plan --report` wrote it.

    Raises UserError for anything else: untrusted code may have written the file.
    """
    if file.is_symlink() or not file.is_file():
        raise _no_review(file)
    with file.open("rb") as stream:
        content = stream.read(_LARGEST + 1)
    if len(content) > _LARGEST or is_deep(content):
        raise _no_review(file)
    try:
        found = parsed(content)
        if found is NO_JSON or found["version"] != 1:
            raise _no_review(file)
        return review_of(found)
    except (AttributeError, KeyError, KeyTwice, OverflowError, TypeError, ValueError):
        raise _no_review(file) from None


def _no_review(file: Path) -> UserError:
    return UserError.of(
        "no-review", f"{file} is not a review", "fairway plan --report DIR writes one"
    )


def review_of(facts: Mapping[str, Any]) -> Review:
    """The review of which `review_facts` made these facts."""
    losses = facts["data_loss"]
    cost = facts["cost"]
    return Review(
        stacks=tuple(stack_of(each, losses) for each in facts["stacks"]),
        digest=_digest(facts["digest"]),
        allowed=frozenset(_text(each["address"]) for each in losses if each["allowed"] is True),
        compared=facts["compared"] is True,
        continues=facts.get("continues") is True,
        cost=_cost(cost) if cost else None,
        findings=tuple(map(_finding, facts["findings"])),
    )


def stack_of(facts: Mapping[str, Any], losses: list[Mapping[str, Any]]) -> StackReview:
    """One stack of a review; `losses` are those of the whole review."""
    name, state = _text(facts["stack"]), _text(facts["state"])
    if state not in _STATES:
        raise ValueError(state)
    return StackReview(
        stack=name,
        state=state,
        digest=_digest(facts["digest"]),
        changes=tuple(_change(name, each) for each in facts["changes"]),
        pending=tuple(_change(name, each) for each in facts["pending"]),
        dropped=tuple(_change(name, each) for each in facts["dropped"]),
        drift=tuple(_change(name, each) for each in facts["drift"]),
        reread=int(_amount(facts["reread"]) or 0),
        outputs=tuple(map(_output, facts["outputs"])),
        findings=tuple(map(_finding, facts["findings"])),
        losses=tuple(_loss(name, each, facts) for each in losses if each["stack"] == name),
        waits_for=tuple(map(_text, facts["waits_for"])),
        promised=facts.get("promised") is True,
        terraform_version=_text(facts["terraform_version"]),
    )


def _loss(stack: str, facts: Mapping[str, Any], of: Mapping[str, Any]) -> Loss:
    """A loss, with what is said of its resource's attributes where the change is told."""
    address = _text(facts["address"])
    known = (each for each in (*of["changes"], *of["pending"]) if each["address"] == address)
    change = next((_change(stack, each) for each in known), None)
    if change is None:
        change = Change(stack, address, "", "", Action(facts["action"]))
    return Loss(change, _text(facts["how"]))


def _change(stack: str, facts: Mapping[str, Any]) -> Change:
    return Change(
        stack=stack,
        address=_text(facts["address"]),
        type=_text(facts["type"]),
        provider=_text(facts["provider"]),
        action=Action(facts["action"]),
        because=tuple(map(_text, facts["because"])),
        reason=_text(facts["reason"]),
        moved_from=_text(facts["moved_from"] or ""),
        deposed=_text(facts["deposed"] or ""),
        attributes=tuple(
            AttributeChange(
                _text(each["path"]),
                value_of(each["old"]),
                value_of(each["new"]),
                each["forces_replacement"] is True,
            )
            for each in facts["attributes"]
        ),
        created=value_of(facts["created"]),
    )


def _output(facts: Mapping[str, Any]) -> OutputChange:
    old, new = value_of(facts["old"]), value_of(facts["new"])
    return OutputChange(_text(facts["name"]), Action(facts["action"]), old, new)


def _finding(facts: Mapping[str, Any]) -> Finding:
    return Finding(
        id=_text(facts["id"]),
        message=_text(facts["message"]),
        hint=_text(facts["hint"]),
        path=_text(facts["path"]),
        severity=Severity(facts["severity"]),
    )


def value_of(facts: Any) -> Any:
    """The value of which `value_facts` made these."""
    if facts == {"sensitive": True}:
        return HIDDEN
    if facts == {"unknown": True}:
        return UNKNOWN
    if isinstance(facts, dict):
        return {key: value_of(item) for key, item in facts.items()}
    if isinstance(facts, list):
        return [value_of(item) for item in facts]
    return facts


def _cost(facts: Mapping[str, Any]) -> CostReview:
    return CostReview(
        currency=_currency(facts["currency"]),
        changes=tuple(
            CostChange(
                stack=_text(each["stack"]),
                address=_text(each["address"]),
                what=_text(each["what"]),
                before=_amount(each["hourly_before"]),
                after=_amount(each["hourly_after"]),
                difference=_amount(each["hourly_difference"]),
                at_minimum=_amount(each["hourly_difference_at_minimum"]),
                whole=each["whole"] is True,
            )
            for each in facts["changes"]
        ),
        prices=tuple(
            Price(0.0, _text(each["source"]), datetime.date.fromisoformat(each["date"]))
            for each in facts["prices"]
        ),
    )


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("no text")
    return value


def _currency(value: Any) -> str:
    """An ISO code: it is written as it is."""
    text = _text(value)
    if not (text.isascii() and text.isalpha() and len(text) == 3):
        raise ValueError(text)
    return text


def _digest(value: Any) -> str:
    """It is written as it is, too."""
    text = _text(value)
    if not _DIGEST.fullmatch(text):
        raise ValueError(text)
    return text


def _amount(value: Any) -> float | None:
    if isinstance(value, int | float | None):
        return None if value is None else float(value)
    raise TypeError("no amount")
