"""Watches: what happens to the objects of a list, as lines, with bookmarks between them."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

from fairway_simulator.kubernetes.api.errors import ApiError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fairway_simulator.kubernetes.api.resources import Resource
    from fairway_simulator.kubernetes.api.store import Change, Object, Store

_BOOKMARK_EVERY = 20.0  # seconds; the real server says a minute, and less before it hangs up
_STEP = 1.0  # seconds after which one looks whether the server is still there


class Watch:
    """A watch of the objects of a resource in a namespace that `wanted` says yes to."""

    def __init__(
        self,
        store: Store,
        resource: Resource,
        namespace: str,
        wanted: Callable[[Object], bool],
        *,
        bookmarks: bool,
        timeout: float,
    ) -> None:
        self._store = store
        self._resource = resource
        self._namespace = namespace
        self._wanted = wanted
        self._bookmarks = bookmarks
        self._until = time.monotonic() + timeout if timeout else None

    def lines(self, since: int, initial: list[Object] | None) -> Iterator[bytes]:
        """The objects that are there, if they are wanted, and then what happens."""
        if initial is not None:
            for found in initial:
                yield _line("ADDED", self._resource.to_wire(found))
            if self._bookmarks:
                yield self._bookmark(since, initial=True)
        told = time.monotonic()
        while not self._store.closed and not self._is_over():
            if self._store.wait(since, _STEP):
                try:
                    changes = self._store.changes(since)
                except ApiError as error:
                    yield _line("ERROR", error.status())
                    return
                for change in changes:
                    since = change.version
                    kind = self._kind(change)
                    if kind:
                        yield _line(kind, self._resource.to_wire(change.found))
            if self._bookmarks and time.monotonic() - told > _BOOKMARK_EVERY:
                told = time.monotonic()
                yield self._bookmark(since)

    def _kind(self, change: Change) -> str:
        """What a change is to this watch: an object that is not wanted any more is gone."""
        if change.resource != self._resource:
            return ""
        if self._namespace and change.found["metadata"].get("namespace") != self._namespace:
            return ""
        before = change.before is not None and self._wanted(change.before)
        after = change.kind != "DELETED" and self._wanted(change.found)
        if after:
            return "MODIFIED" if before else "ADDED"
        return "DELETED" if before else ""

    def _bookmark(self, version: int, *, initial: bool = False) -> bytes:
        metadata: dict[str, Any] = {"resourceVersion": str(version)}
        if initial:
            metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
        return _line("BOOKMARK", self._resource.to_wire({"metadata": metadata}))

    def _is_over(self) -> bool:
        return self._until is not None and time.monotonic() > self._until


def _line(kind: str, found: Object) -> bytes:
    return json.dumps({"type": kind, "object": found}).encode() + b"\n"
