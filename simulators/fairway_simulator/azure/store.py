"""Resources as they were put, with the fields that their services add."""

from __future__ import annotations

import copy
import threading
from typing import TYPE_CHECKING, Any

from fairway_simulator.azure.additions import complete

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fairway_simulator.azure.resource_ids import ResourcePath


class ResourceStore:
    """Resources by their paths. Every answer is a copy; threads may share a store."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._resources: dict[str, tuple[ResourcePath, dict[str, Any]]] = {}
        self._roles: dict[str, dict[str, Any]] = {}

    def remember_role(self, definition: dict[str, Any]) -> None:
        """Makes a built-in role that was looked up by its name available by its id."""
        with self._lock:
            self._roles[definition["name"].lower()] = definition

    def built_in_role(self, name: str) -> dict[str, Any] | None:
        """Returns the built-in role with that id; None if nobody has looked it up."""
        with self._lock:
            found = self._roles.get(name.lower())
            return copy.deepcopy(found)

    def get(self, path: ResourcePath) -> dict[str, Any] | None:
        with self._lock:
            found = self._resources.get(path.key)
            return copy.deepcopy(found[1]) if found else None

    def put(self, path: ResourcePath, body: Mapping[str, Any]) -> dict[str, Any]:
        """Creates or replaces the resource; an existing id keeps the case with which it was
        created."""
        with self._lock:
            path = self._resources.get(path.key, (path,))[0]
            resource = copy.deepcopy(dict(body))
            complete(path, resource)
            self._resources[path.key] = (path, resource)
            return copy.deepcopy(resource)

    def patch(self, path: ResourcePath, changes: Mapping[str, Any]) -> dict[str, Any] | None:
        """Merges the changes into the resource; returns None if it does not exist."""
        with self._lock:
            resource = self.get(path)
            return None if resource is None else self.put(path, _merged(resource, changes))

    def list(self, collection: ResourcePath) -> list[dict[str, Any]]:
        """Returns the resources of a collection, those of a subscription from all its groups."""
        with self._lock:
            found = [each for path, each in self._resources.values() if collection.holds(path)]
            return copy.deepcopy(found)

    def of_type(self, type_: str) -> tuple[ResourcePath, ...]:
        with self._lock:
            return tuple(path for path, _ in self._resources.values() if path.type == type_)


def _merged(old: Any, new: Any) -> Any:
    """Applies a JSON merge patch: mappings are merged, all else is replaced, and null removes."""
    if not isinstance(old, dict) or not hasattr(new, "items"):
        return new
    merged = {**old, **{key: _merged(old.get(key), value) for key, value in new.items()}}
    return {key: value for key, value in merged.items() if value is not None}
