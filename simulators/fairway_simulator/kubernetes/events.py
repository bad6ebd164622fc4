"""Events: what somebody who asks `kubectl describe` reads about an object."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

from fairway_simulator.kubernetes.api.resources import EVENTS
from fairway_simulator.kubernetes.conditions import now

if TYPE_CHECKING:
    from fairway_simulator.kubernetes.api.resources import Resource
    from fairway_simulator.kubernetes.api.store import Object, Store


def event(
    resource: Resource, about: Object, source: str, reason: str, message: str, *, bad: bool = False
) -> dict[str, Any]:
    """A new event about an object."""
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
    """Writes events into the store; the same one again is counted."""

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
        """Says what happened to an object, once as long as it is the same; or each time, with the
        time `when` it did."""
        key = (about["metadata"]["uid"], reason)
        if self._last.get(key) == message and not when:
            return
        self._last[key] = message
        new = event(resource, about, self._source, reason, message, bad=bad)
        if when:
            new |= {"firstTimestamp": when, "lastTimestamp": when}
        new["metadata"] |= {"uid": str(uuid.uuid4()), "creationTimestamp": now()}
        self._store.create(EVENTS, new)
