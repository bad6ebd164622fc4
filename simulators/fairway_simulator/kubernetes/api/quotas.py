"""What a namespace may have at most: each object that would be too much is refused (403).

Source: Kubernetes documentation, resource quotas. Scopes are not there, and a quota of a kind that
is not counted here is refused when it is made, rather than kept by nobody.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any

from fairway_agent.kubernetes.settings import parse
from fairway_simulator.kubernetes.api.errors import ApiError
from fairway_simulator.kubernetes.api.resources import BUILT_IN, QUOTAS, Resource

if TYPE_CHECKING:
    from collections.abc import Iterator
    from fractions import Fraction

    from fairway_simulator.kubernetes.api.store import Object, Store

_OF_PODS = re.compile(r"(requests|limits)\.(cpu|memory|ephemeral-storage)|requests\.[^/]+/[^/]+")
_PLAIN = {"cpu": "requests.cpu", "memory": "requests.memory"}
_COUNTED = ("pods", "services", "secrets", "configmaps", "persistentvolumeclaims")
_SERVICES = {
    "services.loadbalancers": ["LoadBalancer"],
    "services.nodeports": ["LoadBalancer", "NodePort"],
}


def causes(quota: Object) -> Iterator[str]:
    """What is wrong with a quota."""
    for name, text in (quota["spec"].get("hard") or {}).items():
        try:
            wrong = parse(text) < 0
        except ValueError:
            wrong = True
        if wrong:
            yield f'spec.hard[{name}]: Invalid value: "{text}": must be greater than or equal to 0'
        if not _is_known(name):
            said = "must be a standard resource for quota"
            yield f'spec.hard[{name}]: Invalid value: "{name}": {said}'
    for field in quota["spec"]:
        if field != "hard":
            yield f"spec.{field}: Forbidden: the stand-in has no scopes of quotas"


def require(store: Store, resource: Resource, found: Object) -> None:
    """ApiError for an object that its namespace may not have as well."""
    namespace = found["metadata"].get("namespace", "")
    quotas = store.items(QUOTAS, namespace) if namespace else []
    wanted = _use(resource, found)
    for quota in quotas:
        hard: dict[str, Any] = quota["spec"].get("hard") or {}
        if resource.plural == "pods":
            _require_stated(found, hard, quota)
        counted = {name: _PLAIN.get(name, name) for name in hard}
        asked = {name: wanted[key] for name, key in counted.items() if wanted[key]}
        if not asked:
            continue
        used = _used(store, resource, namespace)
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
            raise _forbidden(
                resource, found, f"exceeded quota: {quota['metadata']['name']}, {said}"
            )


def _require_stated(pod: Object, hard: dict[str, Any], quota: Object) -> None:
    """Where processors or memory are counted, each container has to say how much it takes."""
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


def _is_known(name: str) -> bool:
    if name.startswith("count/"):
        return name.removeprefix("count/") in {each.qualified for each in BUILT_IN}
    if name in (*_COUNTED, *_PLAIN, *_SERVICES, "requests.storage"):
        return True
    return bool(_OF_PODS.fullmatch(name))


def _used(store: Store, resource: Resource, namespace: str) -> Counter[str]:
    total: Counter[str] = Counter()
    for each in store.items(resource, namespace):
        total.update(_use(resource, each))
    return total


def _use(resource: Resource, found: Object) -> Counter[str]:
    """What an object counts for, by the names of quotas."""
    total: Counter[str] = Counter({f"count/{resource.qualified}": 1})
    spec = found.get("spec") or {}
    if resource.plural == "pods":
        if (found.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
            return total
        for container in spec.get("containers") or ():
            for section in ("requests", "limits"):
                for name, text in ((container.get("resources") or {}).get(section) or {}).items():
                    total[f"{section}.{name}"] += parse(text)  # type: ignore[assignment]
    if resource.plural in _COUNTED:
        total[resource.plural] = 1
    if resource.plural == "persistentvolumeclaims":
        asked = (spec.get("resources") or {}).get("requests") or {}
        total["requests.storage"] += parse(asked.get("storage", "0"))  # type: ignore[assignment]
    if resource.plural == "services":
        for name, types in _SERVICES.items():
            total[name] += spec.get("type", "ClusterIP") in types
    return total


def _forbidden(resource: Resource, found: Object, why: str) -> ApiError:
    return ApiError(403, f'{resource.qualified} "{found["metadata"]["name"]}" is forbidden: {why}')


def _text(amount: Fraction | int | str) -> str:
    return amount if isinstance(amount, str) else f"{float(amount):.12g}"
