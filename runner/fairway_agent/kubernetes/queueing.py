"""Why what waits has no nodes yet: by Kueue, which admits Jobs, and by what starts nodes for pods.

Kueue: https://kueue.sigs.k8s.io/docs/concepts/workload. The autoscaler's events:
https://github.com/kubernetes/autoscaler/blob/master/cluster-autoscaler/FAQ.md. Standard library
only.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from fairway_agent.kubernetes.api import CORE, FORBIDDEN, Refused

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from fairway_agent.kubernetes.api import Api

Object = dict[str, Any]

_UID = "kueue.x-k8s.io/job-uid"
# Reasons that do not pass when others end, and states of checks, such as that for new nodes.
_NEVER = ("ExceedsMaxQuota", "NoMatchingFlavor", "Misconfigured", "Inadmissible")
_REFUSED = ("Retry", "Rejected")
_STARTS, _STARTS_NONE = "TriggeredScaleUp", "NotTriggerScaleUp"


def held_by_queue(api: Api) -> dict[str, str]:
    """Why Kueue does not admit Jobs yet, by their uids."""
    listed = api.list(api.kueue, "workloads", {}) if api.kueue else ()
    before, found = Counter[str](), {}
    for workload in sorted(filter(_waits, listed), key=_order):
        queue = workload["spec"].get("queueName") or ""
        if why := _why(workload, before[queue]):
            found[(workload["metadata"].get("labels") or {}).get(_UID, "")] = why
        before[queue] += _is_active(workload)
    return found


def scaling(api: Api) -> dict[str, str]:
    """What the cluster's autoscaler said last of pods without a node, by their uids; nothing where
    the head may not see it, or there is none."""
    latest: dict[str, tuple[str, str]] = {}
    try:
        for reason in (_STARTS, _STARTS_NONE):
            query = {"fieldSelector": f"involvedObject.kind=Pod,reason={reason}"}
            for event in api.list(CORE, "events", query):
                uid = event["involvedObject"].get("uid", "")
                when = event.get("lastTimestamp") or event.get("eventTime") or ""
                if uid not in latest or when >= latest[uid][0]:
                    latest[uid] = when, _said(reason, event.get("message") or "")
    except Refused as refused:
        if refused.status != FORBIDDEN:
            raise
    return {uid: why for uid, (_, why) in latest.items()}


def _said(reason: str, message: str) -> str:
    if reason == _STARTS:
        return "nodes are being started for it"
    text = message.removeprefix("pod didn't trigger scale-up: ")
    return f"the autoscaler starts none: {text}"


def _waits(workload: Object) -> bool:
    kinds = {each["type"] for each in _conditions(workload) if each["status"] == "True"}
    return not kinds & {"Admitted", "Finished"}


def _why(workload: Object, ahead: int) -> str | None:
    """None where Kueue has not looked at it yet."""
    for check in (workload.get("status") or {}).get("admissionChecks") or ():
        if check.get("state") in _REFUSED:
            said = check.get("message") or check["state"]
            return f"waiting for {check['name']}: {said}"
    if not _is_active(workload):
        evicted = (each for each in _conditions(workload) if each["type"] == "Evicted")
        said = next((each.get("message") for each in evicted), "") or "it was stopped by someone"
        return f"its queue has put it back: {said}"
    for each in _conditions(workload):
        if each["type"] != "QuotaReserved" or each["status"] != "False":
            continue
        text = f"waiting for quota: {each.get('message') or each.get('reason', '')}"
        if ahead and each.get("reason") not in _NEVER:
            first = "1 other job comes" if ahead == 1 else f"{ahead:,} other jobs come"
            text = f"{first} first; {text}"
        return text
    return None


def _conditions(found: Mapping[str, Any]) -> Iterable[Object]:
    return (found.get("status") or {}).get("conditions") or ()


def _is_active(workload: Object) -> bool:
    return bool(workload["spec"].get("active", True))


def _order(workload: Object) -> tuple[int, str, str]:
    """Those of a higher priority first, and of the same the older ones."""
    about = workload["metadata"]
    return -(workload["spec"].get("priority") or 0), about["creationTimestamp"], about["name"]
