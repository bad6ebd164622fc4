"""Conditions of an object's status, and events, which `kubectl describe` shows."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from fairway_simulator.kubernetes.api.resources import EVENTS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fairway_simulator.kubernetes.api.resources import Resource
    from fairway_simulator.kubernetes.api.store import Object, Store


def now(after: float = 0.0) -> str:
    """Formats the current time, plus `after` seconds."""
    return (datetime.now(UTC) + timedelta(seconds=after)).strftime("%Y-%m-%dT%H:%M:%SZ")


def at(seconds: float) -> str:
    """Formats a POSIX time."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def new_metadata() -> dict[str, str]:
    return {"uid": str(uuid.uuid4()), "creationTimestamp": now()}


def with_condition(
    status: Mapping[str, Any], kind: str, reason: str = "", message: str = "", *, holds: bool = True
) -> dict[str, Any]:
    """Returns the status with this condition, and a new transition time if its status changed."""
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
    for each in (found.get("status") or {}).get("conditions") or ():
        if each["type"] == kind:
            return dict(each)
    return {}


def is_true(found: Mapping[str, Any], kind: str) -> bool:
    return condition_of(found, kind).get("status") == "True"


def event(
    resource: Resource, about: Object, source: str, reason: str, message: str, *, bad: bool = False
) -> dict[str, Any]:
    metadata = about["metadata"]
    namespace = metadata.get("namespace", "default")
    name = f"{metadata['name'][:200]}.{uuid.uuid4().hex[:16]}"
    return {
        "metadata": {"name": name, "namespace": namespace},
        "involvedObject": {
            "kind": resource.kind,
            "apiVersion": resource.api_version,
            "namespace": namespace,
            "name": metadata["name"],
            "uid": metadata["uid"],
        },
        "reason": reason,
        "message": message,
        "type": "Warning" if bad else "Normal",
        "source": {"component": source},
        "reportingComponent": source,
        "firstTimestamp": now(),
        "lastTimestamp": now(),
        "count": 1,
    }


class Recorder:
    """A writer of events to the store; an event that repeats the last one is dropped."""

    def __init__(self, store: Store, source: str) -> None:
        self._store = store
        self._source = source
        self._last: dict[tuple[str, str], str] = {}

    def record(
        self,
        resource: Resource,
        about: Object,
        reason: str,
        message: str,
        *,
        bad: bool = False,
        when: str = "",
    ) -> None:
        """Records an event of an object unless it repeats the last one of this reason; with a time
        `when`, always."""
        key = (about["metadata"]["uid"], reason)
        if self._last.get(key) == message and not when:
            return
        self._last[key] = message
        new = event(resource, about, self._source, reason, message, bad=bad)
        if when:
            new |= {"firstTimestamp": when, "lastTimestamp": when}
        new["metadata"] |= new_metadata()
        self._store.create(EVENTS, new)
