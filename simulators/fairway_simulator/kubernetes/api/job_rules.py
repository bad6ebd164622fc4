"""What a Job may look like, and what of it may change."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from fairway_simulator.kubernetes.api import pod_rules

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fairway_simulator.kubernetes.api.store import Object

_ACTIONS = ("Count", "FailIndex", "FailJob", "Ignore")
_HOSTNAME = 63
_FIXED = (
    "selector",
    "completionMode",
    "podFailurePolicy",
    "successPolicy",
    "backoffLimitPerIndex",
)


def causes(job: Object) -> Iterator[str]:
    """What is wrong with a Job."""
    spec = job["spec"]
    indexed = spec["completionMode"] == "Indexed"
    if spec["completionMode"] not in ("Indexed", "NonIndexed"):
        yield (
            f'spec.completionMode: Unsupported value: "{spec["completionMode"]}": supported '
            'values: "Indexed", "NonIndexed"'
        )
    for field in (
        "completions",
        "parallelism",
        "backoffLimit",
        "backoffLimitPerIndex",
        "activeDeadlineSeconds",
    ):
        if (value := spec.get(field)) is not None and value < 0:
            yield f"spec.{field}: Invalid value: {value}: must be greater than or equal to 0"
    if indexed and spec.get("completions") is None:
        yield "spec.completions: Required value: when completion mode is Indexed"
    yield from _name(job["metadata"].get("name", ""), spec)
    yield from _template(spec)
    yield from _per_index(spec, indexed)
    yield from _success(spec, indexed)
    yield from _failure(spec)


def immutable(before: Object, after: Object) -> Iterator[str]:
    """What of a Job was changed that stays as it is."""
    old, new = before["spec"], after["spec"]
    for field in _FIXED:
        if old.get(field) != new.get(field):
            yield f"spec.{field}: Invalid value: {_json(new.get(field))}: field is immutable"
    # Kueue says where a suspended Job's pods may run, before they are made.
    waits = old["suspend"] and "startTime" not in (before.get("status") or {})
    if old["template"] != new["template"] and not (waits and _same_pods(old, new)):
        yield f"spec.template: Invalid value: {_json(new['template'])}: field is immutable"
    if old.get("completions") != new.get("completions"):
        if old["completionMode"] != "Indexed":
            yield f"spec.completions: Invalid value: {new.get('completions')}: field is immutable"
        elif new.get("completions") != new.get("parallelism"):
            yield (
                f"spec.completions: Invalid value: {new.get('completions')}: can only be modified "
                "in tandem with spec.parallelism"
            )


def _name(name: str, spec: Object) -> Iterator[str]:
    """Pods' host names are the Job's name, a hyphen and their index."""
    host = name
    if spec["completionMode"] == "Indexed" and spec.get("completions"):
        host = f"{name}-{spec['completions'] - 1}"
    if len(host) > _HOSTNAME:
        yield (
            f'metadata.name: Invalid value: "{name}": will not able to create pod with invalid '
            f"DNS label: {host}: must be no more than {_HOSTNAME} bytes"
        )
    yield from pod_rules.labels(
        (spec["template"].get("metadata") or {}).get("labels"), "spec.template.metadata.labels"
    )


def _template(spec: Object) -> Iterator[str]:
    policy = spec["template"]["spec"]["restartPolicy"]
    if policy == "Always":
        yield (
            'spec.template.spec.restartPolicy: Unsupported value: "Always": supported values: '
            '"OnFailure", "Never"'
        )
    elif policy != "Never" and spec.get("podFailurePolicy"):
        yield (
            f'spec.template.spec.restartPolicy: Invalid value: "{policy}": only "Never" is '
            "supported when podFailurePolicy is specified"
        )
    if spec.get("podFailurePolicy") and spec["podReplacementPolicy"] != "Failed":
        yield (
            f'spec.podReplacementPolicy: Unsupported value: "{spec["podReplacementPolicy"]}": '
            'supported values: "Failed"'
        )


def _per_index(spec: Object, indexed: bool) -> Iterator[str]:
    limit = spec.get("backoffLimitPerIndex")
    if limit is not None and not indexed:
        yield (
            f"spec.backoffLimitPerIndex: Invalid value: {limit}: requires indexed completion mode"
        )
    for field in ("managedBy", "maxFailedIndexes", "ttlSecondsAfterFinished"):
        if spec.get(field) is not None:
            yield f"spec.{field}: Forbidden: the stand-in has no such field"


def _success(spec: Object, indexed: bool) -> Iterator[str]:
    policy = spec.get("successPolicy")
    if policy is None:
        return
    if not indexed:
        yield (
            f"spec.successPolicy: Invalid value: {_json(policy)}: requires indexed completion mode"
        )
    if not policy.get("rules"):
        yield "spec.successPolicy.rules: Required value: at least one rules must be specified"
    for number, rule in enumerate(policy.get("rules") or ()):
        if rule.get("succeededIndexes") is None and rule.get("succeededCount") is None:
            yield (
                f"spec.successPolicy.rules[{number}]: Required value: at least one of "
                "succeededCount or succeededIndexes must be specified"
            )


def _failure(spec: Object) -> Iterator[str]:
    pod = spec["template"]["spec"]
    names = [
        each["name"] for each in [*(pod.get("initContainers") or ()), *pod.get("containers", ())]
    ]
    for number, rule in enumerate((spec.get("podFailurePolicy") or {}).get("rules") or ()):
        path = f"spec.podFailurePolicy.rules[{number}]"
        action = rule["action"]
        if action not in _ACTIONS:
            supported = ", ".join(f'"{each}"' for each in _ACTIONS)
            yield f'{path}.action: Unsupported value: "{action}": supported values: {supported}'
        if action == "FailIndex" and spec.get("backoffLimitPerIndex") is None:
            yield (
                f'{path}.action: Invalid value: "FailIndex": requires the backoffLimitPerIndex to '
                "be set"
            )
        if bool(rule.get("onExitCodes")) == bool(rule.get("onPodConditions")):
            yield (
                f"{path}: Invalid value: {_json(rule)}: specifying one of OnExitCodes and "
                "OnPodConditions is required"
            )
        if codes := rule.get("onExitCodes"):
            yield from _exit_codes(codes, f"{path}.onExitCodes", names)


def _exit_codes(codes: Object, path: str, names: list[str]) -> Iterator[str]:
    if codes["operator"] not in ("In", "NotIn"):
        yield (
            f'{path}.operator: Unsupported value: "{codes["operator"]}": supported values: "In", '
            '"NotIn"'
        )
    if not codes.get("values"):
        yield f"{path}.values: Invalid value: []: at least one value is required"
    if codes["operator"] == "In" and 0 in codes.get("values", ()):
        place = codes["values"].index(0)
        yield f"{path}.values[{place}]: Invalid value: 0: must not be 0 for the In operator"
    name = codes.get("containerName")
    if name is not None and name not in names:
        yield (
            f'{path}.containerName: Invalid value: "{name}": must be one of the container or '
            "initContainer names in the pod template"
        )


def _same_pods(old: Object, new: Object) -> bool:
    """Whether but what says where pods may run is as it was."""
    return _unplaced(old["template"]) == _unplaced(new["template"])


def _unplaced(template: Object) -> Object:
    free = ("nodeSelector", "tolerations", "affinity", "schedulingGates")
    kept = {k: v for k, v in template["spec"].items() if k not in free}
    return {**template, "metadata": {}, "spec": kept}


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))
