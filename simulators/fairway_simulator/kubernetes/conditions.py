"""The conditions of an object's status."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fairway_simulator.kubernetes.times import now

if TYPE_CHECKING:
    from collections.abc import Mapping


def with_condition(status: Mapping[str, Any], condition: Mapping[str, str]) -> dict[str, Any]:
    """The status with this condition, which has a time where it is another than before."""
    known = list(status.get("conditions") or ())
    old = next((each for each in known if each["type"] == condition["type"]), None)
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
