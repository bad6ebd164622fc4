"""Times as Kubernetes writes them, and the conditions of an object's status."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


def now(after: float = 0.0) -> str:
    """The time, this many seconds from now."""
    return (datetime.now(UTC) + timedelta(seconds=after)).strftime("%Y-%m-%dT%H:%M:%SZ")


def at(seconds: float) -> str:
    """The time that is so long after 1970."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def seconds_since(text: str) -> float:
    """The seconds since then."""
    return (datetime.now(UTC) - datetime.fromisoformat(text)).total_seconds()


def with_condition(
    status: Mapping[str, Any], kind: str, reason: str = "", message: str = "", *, holds: bool = True
) -> dict[str, Any]:
    """The status with this condition, which has a time where it is another than before."""
    texts = {name: text for name, text in (("reason", reason), ("message", message)) if text}
    condition = {"type": kind, "status": str(holds), **texts}
    known = list(status.get("conditions") or ())
    old = next((each for each in known if each["type"] == kind), None)
    if old is not None and all(old.get(name) == value for name, value in condition.items()):
        return dict(status)
    since = now()
    if old is not None and old["status"] == condition["status"]:
        since = old.get("lastTransitionTime", since)
    new = {**condition, "lastTransitionTime": since}
    conditions = [new if each is old else each for each in known]
    return {**status, "conditions": conditions if old is not None else [*known, new]}


def condition_of(found: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """The condition of an object, {} where it has none of that kind."""
    for each in (found.get("status") or {}).get("conditions") or ():
        if each["type"] == kind:
            return dict(each)
    return {}


def is_true(found: Mapping[str, Any], kind: str) -> bool:
    """Whether an object has a condition that holds."""
    return condition_of(found, kind).get("status") == "True"
