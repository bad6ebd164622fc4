"""What a Job's `podFailurePolicy` says about a pod that failed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fairway_simulator.kubernetes.api.store import Object


def ruling(policy: Mapping[str, Any] | None, pod: Object) -> tuple[str, str]:
    """The action of the first rule that matches, and the real controller's words for it; `Count`
    where none does."""
    for number, rule in enumerate((policy or {}).get("rules") or ()):
        found = _by_exit_code(rule, pod) or _by_condition(rule, pod)
        if found:
            action = str(rule["action"])
            return action, f"{found} matching {action} rule at index {number}"
    return "Count", ""


def _by_exit_code(rule: Mapping[str, Any], pod: Object) -> str:
    codes = rule.get("onExitCodes")
    if not codes:
        return ""
    metadata, status = pod["metadata"], pod["status"]
    known = [
        *(status.get("initContainerStatuses") or ()),
        *(status.get("containerStatuses") or ()),
    ]
    for each in known:
        ended = (each.get("state") or {}).get("terminated")
        name = codes.get("containerName")
        if not ended or not ended.get("exitCode") or name not in (None, each["name"]):
            continue
        code = ended["exitCode"]
        if (code in codes["values"]) is (codes["operator"] == "In"):
            return (
                f"Container {each['name']} for pod {metadata['namespace']}/{metadata['name']} "
                f"failed with exit code {code}"
            )
    return ""


def _by_condition(rule: Mapping[str, Any], pod: Object) -> str:
    metadata = pod["metadata"]
    for wanted in rule.get("onPodConditions") or ():
        for known in pod["status"].get("conditions") or ():
            status = wanted.get("status", "True")
            if known["type"] == wanted["type"] and known["status"] == status:
                return (
                    f"Pod {metadata['namespace']}/{metadata['name']} has condition {known['type']}"
                )
    return ""
