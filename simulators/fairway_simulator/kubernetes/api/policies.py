"""Admission policies, which deny pods and nodes (422) as on the real server, and resource quotas.

Expressions are run by cel-python, which only tests install. Not supported: parameters, audit
annotations, actions except Deny, and rules on anything but pods and nodes. Source: Kubernetes
documentation, "Validating Admission Policy".
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any

from fairway_agent.kubernetes.settings import parse
from fairway_simulator.kubernetes.api.requests import ApiError
from fairway_simulator.kubernetes.api.resources import (
    NAMESPACES,
    POLICIES,
    POLICY_BINDINGS,
    QUOTAS,
    Resource,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from fractions import Fraction

    from fairway_simulator.kubernetes.api.requests import Identity
    from fairway_simulator.kubernetes.api.store import Object, Store


_NODE = "authentication.kubernetes.io/node-name"


def require_policies(store: Store, resource: Resource, found: Object) -> None:
    """Raises ApiError if a policy of its namespace denies a new object."""
    given = {"object": found, "request": {"operation": "CREATE"}}
    _require(store, resource, resource.plural, given)


def require_change(
    store: Store, resource: Resource, before: Object, found: Object, part: str, by: Identity
) -> None:
    """Raises ApiError if a policy denies a change of an object, or of a `part` such as status."""
    # Source: Kubernetes documentation, "Managing Service Accounts": the claims of a pod's token.
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
    """Yields the policies bound to a namespace, or to cluster-scoped objects."""
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
    """Yields the messages of validations that are false or fail; none if a match condition excludes
    the request."""
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


_OF_PODS = re.compile(r"(requests|limits)\.(cpu|memory|ephemeral-storage)|requests\.[^/]+/[^/]+")
_OF_SERVICES = ("services.loadbalancers", "services.nodeports")  # never created here
_PLAIN = {"cpu": "requests.cpu", "memory": "requests.memory"}


def quota_causes(quota: Object) -> Iterator[str]:
    for name, text in (quota["spec"].get("hard") or {}).items():
        try:
            wrong = parse(text) < 0
        except ValueError:
            wrong = True
        if wrong:
            yield f'spec.hard[{name}]: Invalid value: "{text}": must be greater than or equal to 0'
        if name not in ("pods", *_PLAIN, *_OF_SERVICES) and not _OF_PODS.fullmatch(name):
            said = "must be a resource for quota that the stand-in counts"
            yield f'spec.hard[{name}]: Invalid value: "{name}": {said}'
    for field in quota["spec"]:
        if field != "hard":
            yield f"spec.{field}: Forbidden: the stand-in has no scopes of quotas"


def require_quota(store: Store, resource: Resource, found: Object) -> None:
    """Raises ApiError (403) if a pod exceeds a quota of its namespace."""
    if resource.plural != "pods":
        return
    namespace, wanted = found["metadata"]["namespace"], _use(found)
    for quota in store.items(QUOTAS, namespace):
        hard: dict[str, Any] = quota["spec"].get("hard") or {}
        _require_stated(found, hard, quota)
        counted = {name: _PLAIN.get(name, name) for name in hard}
        asked = {name: wanted[key] for name, key in counted.items() if wanted[key]}
        if not asked:
            continue
        used = sum((_use(each) for each in store.items(resource, namespace)), Counter())
        over = [name for name in asked if asked[name] + used[counted[name]] > parse(hard[name])]
        if over:
            words = (
                ("requested", {name: asked[name] for name in over}),
                ("used", {name: used[counted[name]] for name in over}),
                ("limited", {name: hard[name] for name in over}),
            )
            said = ", ".join(
                f"{title}: {','.join(f'{name}={_text(amounts[name])}' for name in sorted(over))}"
                for title, amounts in words
            )
            start = f'{resource.qualified} "{found["metadata"]["name"]}" is forbidden: '
            raise ApiError(403, f"{start}exceeded quota: {quota['metadata']['name']}, {said}")


def _require_stated(pod: Object, hard: dict[str, Any], quota: Object) -> None:
    """Raises ApiError (403) unless each container specifies the CPU and memory in the quota."""
    for name in sorted(hard):
        section, _, what = _PLAIN.get(name, name).partition(".")
        if section not in ("requests", "limits") or what not in ("cpu", "memory"):
            continue
        for container in pod["spec"]["containers"]:
            if what not in ((container.get("resources") or {}).get(section) or {}):
                why = f"failed quota: {quota['metadata']['name']}: must specify {name} for: "
                raise ApiError(
                    403, f'pods "{pod["metadata"]["name"]}" is forbidden: {why}{container["name"]}'
                )


def _use(found: Object) -> Counter[str]:
    total: Counter[str] = Counter()
    if (found.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
        return total
    total["pods"] = 1
    for container in found["spec"]["containers"]:
        for section in ("requests", "limits"):
            for name, text in ((container.get("resources") or {}).get(section) or {}).items():
                total[f"{section}.{name}"] += parse(text)  # type: ignore[assignment]
    return total


def _text(amount: Fraction | int | str) -> str:
    return amount if isinstance(amount, str) else f"{float(amount):.12g}"
