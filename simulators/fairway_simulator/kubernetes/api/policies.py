"""Policies of admission: each pod that one refuses is refused (422), as by the real server.

Expressions are run by cel-python, which only tests install. Not there: parameters, conditions,
audit annotations, actions but Deny, and rules on anything but pods.
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

    from fairway_simulator.kubernetes.api.store import Object, Store


def require(store: Store, resource: Resource, found: Object, operation: str) -> None:
    """ApiError for an object that a policy of its namespace refuses."""
    namespace = found["metadata"].get("namespace", "")
    if resource.plural != "pods" or not namespace:
        return
    for policy in _of(store, namespace):
        spec = policy["spec"]
        rules = spec["matchConstraints"]["resourceRules"]
        if any("pods" in rule["resources"] and operation in rule["operations"] for rule in rules):
            for said in _refusals(spec, found, operation):
                name = policy["metadata"]["name"]
                message = f'pods "{found["metadata"]["name"]}" is forbidden: '
                message += f"ValidatingAdmissionPolicy '{name}' with binding '{name}' denied "
                raise ApiError(422, f"{message}request: {said}", "Invalid")


def _of(store: Store, namespace: str) -> Iterator[Object]:
    """The policies that are bound to a namespace."""
    space = store.find(NAMESPACES, "", namespace) or {"metadata": {}}
    labels = {"kubernetes.io/metadata.name": namespace, **space["metadata"].get("labels", {})}
    for binding in store.items(POLICY_BINDINGS, ""):
        assert binding["spec"]["validationActions"] == ["Deny"], "the stand-in has no other"
        selector = binding["spec"]["matchResources"]["namespaceSelector"]["matchLabels"]
        if selector.items() <= labels.items():
            policy = store.find(POLICIES, "", binding["spec"]["policyName"])
            yield from filter(None, [policy])


def _refusals(spec: dict[str, Any], found: Object, operation: str) -> Iterator[str]:
    """The messages of the validations that do not hold, or that fail."""
    from celpy import Environment
    from celpy.adapter import json_to_cel
    from celpy.evaluation import CELEvalError

    environment = Environment()
    given: dict[str, Any] = {
        "object": json_to_cel(found),
        "request": json_to_cel({"operation": operation}),
    }

    def value(expression: str) -> Any:
        return environment.program(environment.compile(expression)).evaluate(given)

    given["variables"] = json_to_cel({})
    for each in spec.get("variables") or ():
        given["variables"][json_to_cel(each["name"])] = value(each["expression"])
    for each in spec["validations"]:
        try:
            holds = bool(value(each["expression"]))
        except CELEvalError as error:
            yield f"expression '{each['expression']}' resulted in error: {error}"
            continue
        if not holds:
            yield each["message"]
