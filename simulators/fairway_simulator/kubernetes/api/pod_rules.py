"""Rules of pods and of Jobs: valid values, and the fields that may change."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from fairway_agent.kubernetes.settings import parse

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from fairway_simulator.kubernetes.api.store import Object


_DNS_LABEL = re.compile(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")
_VALUE = re.compile(r"^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$")
_LONGEST = 63
_VALUE_WORDS = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or "
    "'.', and must start and end with an alphanumeric character"
)
_POLICIES = ("Always", "Never")


def labels(found: Mapping[str, Any] | None, path: str) -> Iterator[str]:
    for value in (found or {}).values():
        if len(value) > _LONGEST:
            yield f'{path}: Invalid value: "{value}": must be no more than {_LONGEST} bytes'
        elif not _VALUE.match(value):
            yield f'{path}: Invalid value: "{value}": {_VALUE_WORDS}'


def pod_causes(spec: Object, path: str) -> Iterator[str]:
    if len(spec["containers"]) != 1:
        yield f"{path}.containers: Required value: pods of the stand-in have one"
    if spec["restartPolicy"] not in _POLICIES:
        policies = ", ".join(f'"{each}"' for each in _POLICIES)
        yield (
            f'{path}.restartPolicy: Unsupported value: "{spec["restartPolicy"]}": supported '
            f"values: {policies}"
        )
    volumes = set[str]()
    for index, volume in enumerate(spec.get("volumes") or ()):
        if volume["name"] in volumes:
            yield f'{path}.volumes[{index}].name: Duplicate value: "{volume["name"]}"'
        volumes.add(volume["name"])
    seen: set[str] = set()
    for field in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(field) or ()):
            place = f"{path}.{field}[{index}]"
            name = container["name"]
            if not _DNS_LABEL.match(name) or len(name) > _LONGEST:
                yield (
                    f'{place}.name: Invalid value: "{name}": a lowercase RFC 1123 label must '
                    "consist of lower case alphanumeric characters or '-'"
                )
            if name in seen:
                yield f'{place}.name: Duplicate value: "{name}"'
            seen.add(name)
            yield from _container(container, place, volumes)


def may_become(before: Object, after: Object) -> bool:
    """Returns True if a pod's spec may change from `before` to `after`."""
    return _fixed(before) == _fixed(after)


def _fixed(spec: Object) -> Object:
    kept = {k: v for k, v in spec.items() if k not in ("tolerations", "activeDeadlineSeconds")}
    for field in ("containers", "initContainers"):
        kept[field] = [{**each, "image": ""} for each in spec.get(field) or ()]
    return kept


def _container(container: Object, path: str, volumes: set[str]) -> Iterator[str]:
    if not container.get("image"):
        yield f"{path}.image: Required value"
    paths: set[str] = set()
    for index, mount in enumerate(container.get("volumeMounts") or ()):
        if mount["name"] not in volumes:
            yield f'{path}.volumeMounts[{index}].name: Not found: "{mount["name"]}"'
        where = mount["mountPath"]
        if where in paths:
            place = f"{path}.volumeMounts[{index}].mountPath"
            yield f'{place}: Invalid value: "{where}": must be unique'
        paths.add(where)
    yield from _resources(container.get("resources") or {}, f"{path}.resources")


def _resources(resources: Object, path: str) -> Iterator[str]:
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    amounts = {}
    for field, named in (("limits", limits), ("requests", requests)):
        for name, text in named.items():
            try:
                amounts[field, name] = parse(text)
            except ValueError:
                yield (
                    f'{path}.{field}[{name}]: Invalid value: "{text}": quantities must match the '
                    "regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
                )
                return
    for (field, name), amount in amounts.items():
        if _is_extended(name) and amount.denominator != 1:
            yield f'{path}.{field}[{name}]: Invalid value: "{amounts}": must be an integer'
    for name, text in requests.items():
        limit = amounts.get(("limits", name))
        if _is_extended(name) and limit is None:
            yield (
                f"{path}.limits: Required value: Limit must be set for non overcommitable resources"
            )
        elif _is_extended(name) and amounts["requests", name] != limit:
            yield (
                f'{path}.requests: Invalid value: "{text}": must be equal to {name} limit of '
                f"{limits[name]}"
            )
        elif limit is not None and amounts["requests", name] > limit:
            yield (
                f'{path}.requests: Invalid value: "{text}": must be less than or equal to {name} '
                f"limit of {limits[name]}"
            )


def _is_extended(name: str) -> bool:
    """Returns True for a device's name; amounts of devices are integers, request equal to limit."""
    return "/" in name and not name.startswith("kubernetes.io/")


_ABSENT = ("activeDeadlineSeconds", "managedBy", "maxFailedIndexes", "ttlSecondsAfterFinished")
_HOSTNAME = 63
_FIXED = (
    "selector",
    "completions",
    "completionMode",
    "podFailurePolicy",
    "successPolicy",
    "backoffLimitPerIndex",
)


def job_causes(job: Object) -> Iterator[str]:
    spec = job["spec"]
    is_indexed = spec["completionMode"] == "Indexed"
    yield from _absent(spec)
    if not is_indexed and spec.get("completions") != 1:
        yield "spec.completionMode: Forbidden: the stand-in has Indexed Jobs, and those of one pod"
    for field in ("completions", "parallelism", "backoffLimit", "backoffLimitPerIndex"):
        if (value := spec.get(field)) is not None and value < 0:
            yield f"spec.{field}: Invalid value: {value}: must be greater than or equal to 0"
    if spec.get("completions") is None:
        yield "spec.completions: Required value: when completion mode is Indexed"
    for field in ("backoffLimitPerIndex", "successPolicy") if not is_indexed else ():
        if spec.get(field) is not None:
            yield f"spec.{field}: Invalid value: requires indexed completion mode"
    yield from _name(job["metadata"].get("name", ""), spec)
    if spec["template"]["spec"]["restartPolicy"] == "Always":
        yield (
            'spec.template.spec.restartPolicy: Unsupported value: "Always": supported values: '
            '"OnFailure", "Never"'
        )
    yield from _success(spec)
    yield from _failure(spec)


def _absent(spec: Object) -> Iterator[str]:
    for field in _ABSENT:
        if spec.get(field) is not None:
            yield f"spec.{field}: Forbidden: the stand-in has no such field"
    if spec.get("backoffLimitPerIndex"):
        yield "spec.backoffLimitPerIndex: Forbidden: the stand-in tries no index again"
    if spec["podReplacementPolicy"] != "Failed":
        yield "spec.podReplacementPolicy: Forbidden: the stand-in waits until a pod has ended"


def job_changes(before: Object, after: Object) -> Iterator[str]:
    """Yields causes for the changed fields of a Job that are immutable."""
    old, new = before["spec"], after["spec"]
    for field in _FIXED:
        if old.get(field) != new.get(field):
            yield f"spec.{field}: Invalid value: {_json(new.get(field))}: field is immutable"
    # Kueue sets where a suspended Job's pods may run, before they are created.
    waits = old["suspend"] and "startTime" not in (before.get("status") or {})
    if old["template"] != new["template"] and not (waits and _same_pods(old, new)):
        yield f"spec.template: Invalid value: {_json(new['template'])}: field is immutable"


def _name(name: str, spec: Object) -> Iterator[str]:
    """Checks the name in pods' host names, which are the Job's name, a hyphen and their index."""
    host = name
    if spec["completionMode"] == "Indexed" and spec.get("completions"):
        host = f"{name}-{spec['completions'] - 1}"
    if len(host) > _HOSTNAME:
        yield (
            f'metadata.name: Invalid value: "{name}": will not able to create pod with invalid '
            f"DNS label: {host}: must be no more than {_HOSTNAME} bytes"
        )
    yield from labels(
        (spec["template"].get("metadata") or {}).get("labels"), "spec.template.metadata.labels"
    )


def _success(spec: Object) -> Iterator[str]:
    policy = spec.get("successPolicy")
    if policy is None:
        return
    if not policy.get("rules"):
        yield "spec.successPolicy.rules: Required value: at least one rules must be specified"
    for number, rule in enumerate(policy.get("rules") or ()):
        if rule.get("succeededIndexes") is None or rule.get("succeededCount") is not None:
            yield f"spec.successPolicy.rules[{number}]: Required value: succeededIndexes alone"


def _failure(spec: Object) -> Iterator[str]:
    pod = spec["template"]["spec"]
    names = [each["name"] for each in pod["containers"]]
    for number, rule in enumerate((spec.get("podFailurePolicy") or {}).get("rules") or ()):
        path = f"spec.podFailurePolicy.rules[{number}]"
        if rule["action"] != "Ignore":
            yield f"{path}.action: Forbidden: the stand-in has `Ignore` alone"
        if bool(rule.get("onExitCodes")) == bool(rule.get("onPodConditions")):
            yield (
                f"{path}: Invalid value: {_json(rule)}: specifying one of OnExitCodes and "
                "OnPodConditions is required"
            )
        if codes := rule.get("onExitCodes"):
            yield from _exit_codes(codes, f"{path}.onExitCodes", names)


def _exit_codes(codes: Object, path: str, names: list[str]) -> Iterator[str]:
    if codes["operator"] != "In":
        yield f"{path}.operator: Forbidden: the stand-in has `In` alone"
    if not codes.get("values"):
        yield f"{path}.values: Invalid value: []: at least one value is required"
    if 0 in codes.get("values", ()):
        place = codes["values"].index(0)
        yield f"{path}.values[{place}]: Invalid value: 0: must not be 0 for the In operator"
    name = codes.get("containerName")
    if name is not None and name not in names:
        yield (
            f'{path}.containerName: Invalid value: "{name}": must be one of the container or '
            "initContainer names in the pod template"
        )


def _same_pods(old: Object, new: Object) -> bool:
    """Returns True if the pods of two Jobs differ at most in their placement."""
    return _unplaced(old["template"]) == _unplaced(new["template"])


def _unplaced(template: Object) -> Object:
    free = ("nodeSelector", "tolerations", "affinity", "schedulingGates")
    kept = {k: v for k, v in template["spec"].items() if k not in free}
    return {**template, "metadata": {}, "spec": kept}


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))
