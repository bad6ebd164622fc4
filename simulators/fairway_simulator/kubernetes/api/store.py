"""The objects, each with the version of the store at its last write, and their changes; selectors
and watches."""

from __future__ import annotations

import json
import re
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fairway_simulator.kubernetes.api.requests import (
    ApiError,
    already_exists,
    bad_request,
    conflict,
    expired,
    not_found,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from fairway_simulator.kubernetes.api.resources import Resource

    Test = Callable[[Mapping[str, str]], bool]


Object = dict[str, Any]

FIRST = 1
"""The version of a new store."""
_REMEMBERED = 20_000
"""The number of recent changes that watches can still request."""


@dataclass(frozen=True)
class Change:
    version: int
    kind: str
    """ADDED, MODIFIED or DELETED."""
    resource: Resource
    found: Object
    before: Object | None


class Store:
    """The store of objects, which are never changed in place: a write replaces the object."""

    def __init__(self) -> None:
        self.changed = threading.Condition(threading.RLock())
        """Held while more than one object is read or written, and notified of every change."""
        self.version = FIRST
        self._objects: dict[str, dict[tuple[str, str], Object]] = {}
        self._resources: dict[str, Resource] = {}
        self._owned: dict[tuple[str, str], dict[tuple[str, str], None]] = {}
        self._changes: list[Change] = []
        self.closed = False
        """True if no thread must wait for changes any more."""

    def close(self) -> None:
        with self.changed:
            self.closed = True
            self.changed.notify_all()

    def find(self, resource: Resource, namespace: str, name: str) -> Object | None:
        return self._objects.get(resource.qualified, {}).get((namespace, name))

    def get(self, resource: Resource, namespace: str, name: str) -> Object:
        """Returns an object. Raises ApiError (404) if it is unknown."""
        found = self.find(resource, namespace, name)
        if found is None:
            raise not_found(resource, name)
        return found

    def items(self, resource: Resource, namespace: str = "") -> list[Object]:
        """Returns the objects of a namespace, or all, sorted by namespace and name."""
        with self.changed:
            found = self._objects.get(resource.qualified, {})
            return [found[key] for key in sorted(found) if not namespace or key[0] == namespace]

    def create(self, resource: Resource, new: Object) -> Object:
        """Adds an object with complete metadata. Raises ApiError (409) if it exists."""
        with self.changed:
            key = _key(new)
            self._resources[resource.qualified] = resource
            if key in self._objects.setdefault(resource.qualified, {}):
                raise already_exists(resource, key[1])
            return self._put(resource, "ADDED", new, None)

    def replace(self, resource: Resource, new: Object) -> Object:
        """Replaces an object of the same version. Raises ApiError (404 or 409) if there is none."""
        with self.changed:
            namespace, name = _key(new)
            before = self.get(resource, namespace, name)
            if new["metadata"].get("resourceVersion") != before["metadata"]["resourceVersion"]:
                raise conflict(resource, name)
            if new == before:
                return before
            if _is_over(new):
                return self.remove(resource, new)
            return self._put(resource, "MODIFIED", new, before)

    def set_status(self, resource: Resource, found: Object, status: Object) -> Object:
        """Writes an object's status if it differs."""
        if status == found.get("status"):
            return found
        return self.replace(resource, {**found, "status": status})

    def remove(self, resource: Resource, last: Object) -> Object:
        """Removes an object; watches get its `last` state."""
        with self.changed:
            before = self._objects.get(resource.qualified, {}).pop(_key(last), None)
            if before is None:
                raise not_found(resource, _key(last)[1])
            self._note_owner(resource, before, there=False)
            gone = self._stamped(last)
            self._tell(Change(self.version, "DELETED", resource, gone, before))
            return gone

    def changes(self, since: int) -> list[Change]:
        """Returns the changes after a version. Raises ApiError (410) if they are gone."""
        with self.changed:
            first = self._changes[0].version if self._changes else self.version + 1
            if since + 1 < first:
                raise expired(f"too old resource version: {since} ({first - 1})")
            return self._changes[max(0, since + 1 - first) :]

    def everything(self) -> list[Change]:
        """Returns all objects as additions, for a reader that has missed changes."""
        with self.changed:
            return [
                Change(self.version, "ADDED", self._resources[name], found, None)
                for name, objects in self._objects.items()
                for found in objects.values()
            ]

    def wait(self, since: int, timeout: float) -> bool:
        """Waits for a change after that version. Returns False on timeout."""
        with self.changed:
            return self.changed.wait_for(lambda: self.closed or self.version > since, timeout)

    def owned(self, resource: Resource, owner: Object) -> Iterator[Object]:
        """Returns the objects that an owner controls, in the order of their last writes."""
        keys = self._owned.get((resource.qualified, owner["metadata"]["uid"]), {})
        found = self._objects.get(resource.qualified, {})
        return iter([found[key] for key in keys])

    def forget(self) -> None:
        """Forgets all changes until now, as a compaction does."""
        with self.changed:
            self._changes = []

    def _put(self, resource: Resource, kind: str, new: Object, before: Object | None) -> Object:
        written = self._stamped(new)
        if before is not None:
            self._note_owner(resource, before, there=False)
        self._note_owner(resource, written, there=True)
        self._objects[resource.qualified][_key(new)] = written
        self._tell(Change(self.version, kind, resource, written, before))
        return written

    def _note_owner(self, resource: Resource, found: Object, *, there: bool) -> None:
        for owner in found["metadata"].get("ownerReferences") or ():
            if owner.get("controller"):
                keys = self._owned.setdefault((resource.qualified, owner["uid"]), {})
                if there:
                    keys[_key(found)] = None
                else:
                    keys.pop(_key(found), None)

    def _stamped(self, new: Object) -> Object:
        self.version += 1
        return {**new, "metadata": {**new["metadata"], "resourceVersion": str(self.version)}}

    def _tell(self, change: Change) -> None:
        self._changes.append(change)
        if len(self._changes) > 2 * _REMEMBERED:
            del self._changes[:_REMEMBERED]
        self.changed.notify_all()


def _key(found: Object) -> tuple[str, str]:
    metadata = found["metadata"]
    return metadata.get("namespace", ""), metadata["name"]


def _is_over(found: Object) -> bool:
    """Returns True if an object is being deleted and nothing holds it any more."""
    metadata = found["metadata"]
    if "deletionTimestamp" not in metadata or metadata.get("finalizers"):
        return False
    return not metadata.get("deletionGracePeriodSeconds")


_SET = re.compile(r"^(\S+)\s+in\s+\((.*)\)$")
_FIELDS = re.compile(r"^([\w.\-\[\]'/]+)(!=|=)(.*)$")


def by_labels(text: str) -> Test:
    """Parses a label selector: `a=b,c!=d,e in (f,g),h`."""
    tests = [_label_test(term.strip()) for term in re.split(r",(?![^(]*\))", text) if term.strip()]
    return lambda labels: all(test(labels) for test in tests)


def by_fields(text: str) -> Callable[[Object], bool]:
    """Parses a field selector: `status.phase=Running,spec.nodeName!=n1`."""
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


_BOOKMARK_EVERY = 20.0  # seconds; a minute on the real server, and less before it ends a watch
_STEP = 1.0  # seconds between two checks for the end of the store


class Watch:
    """A watch of those objects of a resource in a namespace that `wanted` selects."""

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
        """Yields the `initial` objects, if given, and then the changes."""
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
        """Returns the kind of a change for this watch: DELETED if an object stops matching."""
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
