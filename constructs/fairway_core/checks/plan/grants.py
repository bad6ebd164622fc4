"""A rule on what a plan would let identities do, and whom it would trust."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fairway_core.catalog.terraform_types import is_broad_role
from fairway_core.checks.check import Fault, Subject, check
from fairway_core.findings import Severity
from fairway_core.json_values import blocks, listed

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from fairway_core.checks.resource_change import Changes

_GRANTS = frozenset(
    {"azurerm_federated_identity_credential", "azurerm_role_assignment", "azurerm_role_definition"}
)
# Who presents a token with all of these acts as the identity.
_TRUSTED = ("issuer", "subject", "audience")


def _is_own(after: Mapping[str, Any], unknown: Mapping[str, Any], own: Collection[str]) -> bool:
    """Whether the environment gives one of its own identities a right over one resource."""
    who = after.get("principal_id")
    scope = after.get("scope")
    known = unknown.get("principal_id") is True if who is None else str(who) in own
    return known and (unknown.get("scope") is True if scope is None else _is_one_resource(scope))


def _is_one_resource(scope: object) -> bool:
    """Less than a resource group: /subscriptions/…/resourceGroups/…/providers/…"""
    return (
        isinstance(scope, str)
        and scope.lower().count("/providers/") > 0
        and ("/resourcegroups/" in scope.lower())
    )


@check("wider-grant", Severity.WARNING, Subject.PLAN)
def wider_grant(changes: Changes, own: Collection[str]) -> Iterator[Fault]:
    """A new role assignment, a wider scope, a role that allows more, or a newly trusted token.

    A role that the environment assigns to its own identity on a single resource is not
    reported, unless it is a broad one; nor is a new role that lists its actions: nobody has it yet.

    Wrong:
        azurerm_role_assignment.nodes:
          actions: [create]
          before: null
          after: {role_definition_name: Contributor, scope: /subscriptions/0}

    Right:
        azurerm_role_assignment.nodes:
          actions: [delete, create]
          before: {role_definition_name: Reader, scope: /subscriptions/0, principal_id: a}
          after:
            role_definition_name: Reader
            scope: /subscriptions/0/resourceGroups/lab
            principal_id: a
    """
    for change in changes:
        if change.type in _GRANTS and change.acts and (after := change.shown("after")):
            is_own = _is_own(change.after, change.unknown, own)
            for message, hint in _granted(change.address, change.shown("before"), after, is_own):
                yield Fault(message, hint, (change.address,))


def _granted(
    address: str, before: Mapping[str, Any], after: Mapping[str, Any], own: bool
) -> Iterator[tuple[str, str]]:
    """What is granted, and what to do instead."""
    if "permissions" in after:
        added = sorted(_allowed(after) - _allowed(before))
        if not before:
            added = [action for action in added if _is_broad_action(action)]
        if added:
            yield f"role `{address}` would allow {', '.join(added)}", "allow only what is needed"
        return
    if "issuer" in after or "subject" in after:
        if any(before.get(key) != after.get(key) for key in _TRUSTED):
            issuer = after.get("issuer") or "an issuer that is known after apply"
            who = after.get("subject") or "a subject that is known after apply"
            message = f"`{address}` would let {who} of {issuer} act as its identity"
            yield message, "trust only the repository, branch or service account that needs it"
        return
    if not _is_wider(before, after):
        return
    role = after.get("role_definition_name") or after.get("role_definition_id") or "a role"
    over = after.get("scope") or "a scope that is known after apply"
    who = after.get("principal_id") or "an identity that is known after apply"
    broad = ", which is a broad role" if is_broad_role(str(role)) else ""
    if own and not before and not broad:
        return
    message = f"`{address}` would give {role} over {over} to {who}{broad}"
    yield message, "assign the narrowest role at the smallest scope that works"


def _is_broad_action(action: str) -> bool:
    """Whether it is more than one action, or one on who may do what."""
    return "*" in action or action.lower().startswith("microsoft.authorization/")


def _is_wider(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    if not before:
        return True
    keys = ("role_definition_name", "role_definition_id", "principal_id")
    # What is null in the one may stand in the other: the provider looks a role's id up.
    if any(before.get(key) and after.get(key) and before[key] != after[key] for key in keys):
        return True
    old, new = str(before.get("scope") or ""), str(after.get("scope") or "")
    return old != new and not f"{new}/".startswith(f"{old}/")


def _allowed(definition: Mapping[str, Any]) -> frozenset[str]:
    return frozenset(
        str(action)
        for block in blocks(definition.get("permissions"))
        for key in ("actions", "data_actions")
        for action in listed(block.get(key))
    )
