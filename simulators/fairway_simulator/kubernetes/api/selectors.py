"""Lists and watches: which objects are meant, and what happens to them."""

from __future__ import annotations

import json
import re
import time
from typing import TYPE_CHECKING, Any

from fairway_simulator.kubernetes.api.requests import ApiError, bad_request

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from fairway_simulator.kubernetes.api.resources import Resource
    from fairway_simulator.kubernetes.api.store import Change, Object, Store

    Test = Callable[[Mapping[str, str]], bool]


_SET = re.compile(r"^(\S+)\s+in\s+\((.*)\)$")
_FIELDS = re.compile(r"^([\w.\-\[\]'/]+)(!=|=)(.*)$")


def by_labels(text: str) -> Test:
    """A selector of requests: `a=b,c!=d,e in (f,g),h`."""
    tests = [_label_test(term.strip()) for term in re.split(r",(?![^(]*\))", text) if term.strip()]
    return lambda labels: all(test(labels) for test in tests)


def by_fields(text: str) -> Callable[[Object], bool]:
    """A selector of fields: `status.phase=Running,spec.nodeName!=n1`."""
    wanted = []
    for term in filter(None, text.split(",")):
        match = _FIELDS.match(term.strip())
        if match is None:
            raise bad_request(f'unable to parse field selector "{text}"')
        wanted.append((match[1].split("."), match[2] != "!=", match[3]))
    return lambda found: all(
        (str(_field(found, path)) == value) is equal for path, equal, value in wanted
    )


def _field(found: Object, path: list[str]) -> Any:
    value: Any = found
    for name in path:
        value = value.get(name, "") if isinstance(value, dict) else ""
    return value


def _label_test(term: str) -> Test:
    if match := _SET.match(term):
        values = {each.strip() for each in match[2].split(",")}
        return lambda labels: labels.get(match[1]) in values
    for sign in ("!=", "="):
        if sign in term:
            name, _, value = (part.strip() for part in term.partition(sign))
            equal = sign != "!="
            return lambda labels: (labels.get(name) == value) is equal
    return lambda labels: term in labels


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
        self._until = time.monotonic() + timeout if timeout else float("inf")

    def lines(self, since: int, initial: list[Object] | None) -> Iterator[bytes]:
        """The objects that are there, if they are wanted, and then what happens."""
        if initial is not None:
            for found in initial:
                yield _line("ADDED", self._resource.to_wire(found))
            if self._bookmarks:
                yield self._bookmark(since, initial=True)
        told = time.monotonic()
        while not self._store.closed and time.monotonic() <= self._until:
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
        """Kind of a change as this watch sees it: an object that is not wanted any more is gone."""
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


def _line(kind: str, found: Object) -> bytes:
    return json.dumps({"type": kind, "object": found}).encode() + b"\n"
