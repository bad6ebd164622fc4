"""Policies of admission: each pod or node that one refuses is refused (422), as by the real server.

Expressions are run by cel-python, which only tests install. Not there: parameters, audit
annotations, actions but Deny, and rules on anything but pods and nodes.
Source: Kubernetes documentation, "Validating Admission Policy".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fairway_simulator.kubernetes.api.errors import ApiError
from fairway_simulator.kubernetes.api.resources import (
    NAMESPACES,
    POLICIES,
    POLICY_BINDINGS,
    Resource,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fairway_simulator.kubernetes.api.requests import Identity
    from fairway_simulator.kubernetes.api.store import Object, Store

_NODE = "authentication.kubernetes.io/node-name"


def require(store: Store, resource: Resource, found: Object) -> None:
    """ApiError for a new object that a policy of its namespace refuses."""
    given = {"object": found, "request": {"operation": "CREATE"}}
    _require(store, resource, resource.plural, given)


def require_change(
    store: Store, resource: Resource, before: Object, found: Object, part: str, by: Identity
) -> None:
    """ApiError for a change that a policy refuses: of an object, or of a `part` such as status."""
    # Source: Kubernetes documentation, "Managing Service Accounts": what a pod's token says.
    extra = {_NODE: [by.node]} if by.node else {}
    user = {"username": by.user, "groups": list(by.groups), **({"extra": extra} if extra else {})}
    given = {
        "object": found,
        "oldObject": before,
        "request": {"operation": "UPDATE", "userInfo": user},
    }
    _require(store, resource, "/".join(filter(None, (resource.plural, part))), given)


def _require(store: Store, resource: Resource, what: str, given: dict[str, Any]) -> None:
    if resource.plural not in ("pods", "nodes"):
        return
    metadata, operation = given["object"]["metadata"], given["request"]["operation"]
    for policy in _of(store, metadata.get("namespace", "")):
        spec = policy["spec"]
        rules = spec["matchConstraints"]["resourceRules"]
        if any(what in rule["resources"] and operation in rule["operations"] for rule in rules):
            for said in _refusals(spec, given):
                name = policy["metadata"]["name"]
                message = f'{resource.plural} "{metadata["name"]}" is forbidden: '
                message += f"ValidatingAdmissionPolicy '{name}' with binding '{name}' denied "
                raise ApiError(422, f"{message}request: {said}", "Invalid")


def _of(store: Store, namespace: str) -> Iterator[Object]:
    """The policies that are bound to a namespace, or to what is in none."""
    space = store.find(NAMESPACES, "", namespace) or {"metadata": {}}
    labels = {"kubernetes.io/metadata.name": namespace, **space["metadata"].get("labels", {})}
    for binding in store.items(POLICY_BINDINGS, ""):
        assert binding["spec"]["validationActions"] == ["Deny"], "the stand-in has no other"
        matched = binding["spec"].get("matchResources") or {}
        selector = (matched.get("namespaceSelector") or {}).get("matchLabels") or {}
        if selector.items() <= labels.items():
            policy = store.find(POLICIES, "", binding["spec"]["policyName"])
            yield from filter(None, [policy])


def _refusals(spec: dict[str, Any], given: dict[str, Any]) -> Iterator[str]:
    """The messages of the validations that do not hold, or that fail; none where a condition says
    that the policy is not about this."""
    from celpy import Environment
    from celpy.adapter import json_to_cel
    from celpy.evaluation import CELEvalError

    environment = Environment()
    known: dict[str, Any] = {name: json_to_cel(value) for name, value in given.items()}

    def value(expression: str) -> Any:
        return environment.program(environment.compile(expression)).evaluate(known)

    if not all(value(each["expression"]) for each in spec.get("matchConditions") or ()):
        return
    known["variables"] = json_to_cel({})
    for each in spec.get("variables") or ():
        known["variables"][json_to_cel(each["name"])] = value(each["expression"])
    for each in spec["validations"]:
        try:
            holds = bool(value(each["expression"]))
        except CELEvalError as error:
            yield f"expression '{each['expression']}' resulted in error: {error}"
            continue
        if not holds:
            yield each["message"]
