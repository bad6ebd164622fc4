"""Azure Resource Manager's formats: paths of resources or collections, and errors."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any


@dataclass(frozen=True)
class ResourcePath:
    """A path such as /subscriptions/S/resourceGroups/G/providers/NAMESPACE/TYPE/NAME.

    Azure ignores case in it, and answers in the case of the request that created the resource.

    >>> ResourcePath("/subscriptions/s/resourceGroups/g").type
    'resourcegroups'
    >>> ResourcePath("/subscriptions/s/providers/Microsoft.Batch/locations/l/quotas").is_resource
    False
    """

    text: str

    @cached_property
    def key(self) -> str:
        """Key under which a resource is stored."""
        return self.text.rstrip("/").lower()

    @cached_property
    def parts(self) -> tuple[str, ...]:
        return tuple(self.text.strip("/").split("/"))

    @property
    def name(self) -> str:
        return self.parts[-1]

    @cached_property
    def namespace(self) -> str:
        """The provider of the resource in lower case: microsoft.batch; "" for none."""
        scope = self.key.rpartition("/providers/")
        return scope[2].partition("/")[0] if scope[1] else ""

    @cached_property
    def _pairs(self) -> tuple[str, ...]:
        """Alternating types and names after the last provider, or from the start."""
        tail = self.key.rpartition("/providers/")
        parts = tail[2].split("/")[1:] if tail[1] else self.key.strip("/").split("/")
        return tuple(parts)

    @property
    def is_resource(self) -> bool:
        """True if the path ends in a name: types and names alternate."""
        return bool(self._pairs) and len(self._pairs) % 2 == 0

    @cached_property
    def type(self) -> str:
        """Type in lower case with its namespace: microsoft.network/virtualnetworks/subnets."""
        kinds = "/".join(self._pairs[::2])
        if self.namespace:
            return f"{self.namespace}/{kinds}"
        return self._pairs[-2] if self.is_resource else self._pairs[-1]

    def parent_of_action(self) -> ResourcePath:
        """Resource of an action, which the path names last: …/SCALE_SET/delete."""
        return ResourcePath("/" + "/".join(self.parts[:-1]))

    @property
    def scope(self) -> str:
        """Path before the last provider: of a subscription, a group or another resource."""
        return self.text[: self.key.rindex("/providers/")]

    def holds(self, other: ResourcePath) -> bool:
        """Returns True if the collection lists `other`: directly, or in a resource group below."""
        if other.key.rpartition("/")[0] == self.key:
            return True
        scope, provider, tail = self.key.rpartition("/providers/")
        if not provider:
            return False
        other_scope, _, other_tail = other.key.rpartition("/providers/")
        below = other_scope.startswith(f"{scope}/resourcegroups/")
        return below and other_tail.rpartition("/")[0] == tail


def refused(status: int, code: str, message: str) -> tuple[int, Any]:
    """Returns a status, and an error in Azure Resource Manager's format."""
    return status, {"error": {"code": code, "message": message}}
