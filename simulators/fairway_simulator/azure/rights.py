"""Role assignments, and the actions of requests.

Azure Resource Manager requires the action of a request on its resource, and further actions on
resources that the request refers to. Sources: Azure documentation, "Understand Azure role
definitions" and "Azure permissions for Compute"; the linked scopes are those for which requests
were refused, see each.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fairway_core.catalog.roles import allowed
from fairway_simulator.azure.resource_ids import refused

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fairway_core.catalog.roles import Permission
    from fairway_simulator.azure.resource_ids import ResourcePath

_VERBS = {"GET": "read", "HEAD": "read", "PUT": "write", "PATCH": "write", "DELETE": "delete"}
# The type of paths without a provider.
_RESOURCES = "Microsoft.Resources/subscriptions"
# Actions by a part of the id of a resource that a machine or scale set refers to: `linked_actions`.
_NETWORK = "Microsoft.Network"
_LINKED = {
    "/userassignedidentities/": "Microsoft.ManagedIdentity/userAssignedIdentities/assign/action",
    "/subnets/": f"{_NETWORK}/virtualNetworks/subnets/join/action",
    "/networksecuritygroups/": f"{_NETWORK}/networkSecurityGroups/join/action",
    "/applicationsecuritygroups/": (
        f"{_NETWORK}/applicationSecurityGroups/joinIpConfiguration/action"
    ),
    "/galleries/": "Microsoft.Compute/galleries/images/versions/read",
    "/proximityplacementgroups/": "Microsoft.Compute/proximityPlacementGroups/write",
}


@dataclass(frozen=True)
class Assignment:
    """A role granted to a principal, by object id, on a scope and everything below it.

    `name` is Terraform's name for it.
    """

    name: str
    principal: str
    scope: str
    permission: Permission

    def covers(self, principal: str, scope: str) -> bool:
        """Returns True if the role holds for that principal on that scope."""
        own, asked = self.scope.rstrip("/").lower(), scope.rstrip("/").lower()
        return self.principal == principal and (asked == own or asked.startswith(f"{own}/"))


@dataclass(frozen=True)
class Rights:
    """All role assignments; what none of them allows is refused."""

    assignments: tuple[Assignment, ...]

    def allow(self, principal: str, action: str, scope: str, *, data: bool = False) -> bool:
        """Returns True if the principal may perform the action there; with `data`, on the
        resource's content."""
        return allowed(action, self._permissions(principal, scope), data=data)

    def without(self, name: str) -> Rights:
        """Returns all but the assignment of that name, which must be one of them."""
        left = tuple(each for each in self.assignments if each.name != name)
        assert len(left) < len(self.assignments), f"no assignment is called {name}"
        return Rights(left)

    def listed(self, principal: str, scope: str) -> list[dict[str, Any]]:
        return [
            {"actions": list(each.actions), "notActions": list(each.not_actions)}
            for each in self._permissions(principal, scope)
        ]

    def _permissions(self, principal: str, scope: str) -> list[Permission]:
        found = (each for each in self.assignments if each.covers(principal, scope))
        return [each.permission for each in found]


def action_of(method: str, path: ResourcePath) -> tuple[str, str]:
    """Returns the action of a request, and its scope.

    >>> from fairway_simulator.azure.resource_ids import ResourcePath
    >>> action_of("GET", ResourcePath("/subscriptions/s/providers/Microsoft.Compute/skus"))
    ('microsoft.compute/skus/read', '/subscriptions/s')
    """
    if method == "POST":
        subject = path.parent_of_action()
        return f"{subject.type}/{path.name}/action", subject.text
    verb = _VERBS[method]
    if not path.namespace:
        below = path.parts[2::2]
        return "/".join((_RESOURCES, *below, verb)), path.text
    if path.parts[-2:-1] == ("providers",):
        return f"{_RESOURCES}/providers/{verb}", path.scope
    if path.is_resource:
        return f"{path.type}/{verb}", path.text
    # A collection: requires the right on the resource around it, or on the provider's scope.
    above = path.text.rpartition("/")[0]
    inside = not above.lower().endswith(f"/providers/{path.namespace}")
    return f"{path.type}/{verb}", above if inside else path.scope


def linked_actions(path: ResourcePath, resource: Any) -> Iterator[tuple[str, str]]:
    """Returns the further actions required to create or change a resource, each with its scope.

    All of them are required at every change: no document says that unchanged parts are exempt.
    Sources: Azure documentation, "Azure permissions for Networking" and "… for Identity" (what join
    and assign are for); kubernetes-sigs/cloud-provider-azure#1999, Azure/aad-pod-identity#511 and
    #613 (scale sets: subnets, identities); Azure/AKS#2040 (images of galleries); "Service
    principals with AKS", cluster identity permissions (placement groups, which have no join).
    """
    if not path.type.startswith("microsoft.compute/virtualmachine"):
        return
    for found in sorted(set(_ids_in(resource))):
        for part, action in _LINKED.items():
            if part in found.lower():
                yield action, found
                break


def refusal(principal: str, action: str, scope: str, linked: str = "") -> tuple[int, Any]:
    """Returns the 403 of an action that is not allowed, or of one on a linked scope.

    Source: Azure documentation, "Troubleshoot Azure RBAC"; the linked one: see `linked_actions`.
    """
    who = f"The client '{principal}' with object id '{principal}'"
    code = "AuthorizationFailed"
    message = (
        f"{who} does not have authorization to perform action '{action}' over scope '{scope}' or "
        "the scope is invalid. If access was recently granted, please refresh your credentials."
    )
    if linked:
        code = "LinkedAuthorizationFailed"
        message = (
            f"{who} has permission to perform the action; however, it does not have permission to "
            f"perform action '{action}' on the linked scope(s) '{linked}'"
        )
    return refused(403, code, message)


def _ids_in(value: Any) -> Iterator[str]:
    """Yields every resource id in a resource, except its own."""
    if isinstance(value, dict):
        for key, each in value.items():
            if str(key).startswith("/subscriptions/"):
                yield str(key)
            yield from _ids_in(each)
    elif isinstance(value, list):
        for each in value:
            yield from _ids_in(each)
    elif isinstance(value, str) and value.startswith("/subscriptions/"):
        yield value


def all_of(permission: Permission, principals: Sequence[str], scope: str) -> Rights:
    """Returns rights with one role on a scope for each of these principals."""
    given = (Assignment(f"given-{each}", each, scope, permission) for each in principals)
    return Rights(tuple(given))
