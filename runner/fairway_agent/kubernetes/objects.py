"""Jobs and pods of runs as the API server reports them."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from fairway_agent.kubernetes.api import CORDONED, FORBIDDEN, RUN, run_label, suppressed
from fairway_agent.kubernetes.settings import pods_of
from fairway_agent.reconcile import queue_reason

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from pathlib import Path

    from fairway_agent.kubernetes.api import Api


Object = dict[str, Any]

_UID = "kueue.x-k8s.io/job-uid"
# Reasons that persist when other jobs end, and states of checks, for example for new nodes.
_NEVER = ("ExceedsMaxQuota", "NoMatchingFlavor", "Misconfigured", "Inadmissible")
_REFUSED = ("Retry", "Rejected")
REQUESTED = "autoscaling.x-k8s.io/consume-provisioning-request"
"""Annotation of pods that Kueue admitted after requesting their nodes. The autoscaler starts no
further nodes for them. Source: Kubernetes autoscaler, processors/provreq/pods_filter.go."""
_SCALES = "the pool scales up"


def queue_reasons(api: Api) -> dict[str, str]:
    """Returns why Kueue does not admit Jobs yet, by their uids."""
    listed = api.list("workloads", {}) if api.kueue else ()
    before, found = Counter[str](), {}
    over = ("Admitted", "Finished")
    waiting = [each for each in listed if not any(find_condition(each, kind) for kind in over)]
    for workload in sorted(waiting, key=_order):
        queue = workload["spec"].get("queueName") or ""
        if why := _why(workload, before[queue]):
            found[(workload["metadata"].get("labels") or {}).get(_UID, "")] = why
        before[queue] += _is_active(workload)
    return found


class Scaling(NamedTuple):
    """The autoscaler's last statement about a pod, "" if there is none, and when it last started
    nodes for it, in seconds since 1970, 0 if unknown."""

    says: str = ""
    since: float = 0.0


def scaling(api: Api) -> dict[str, Scaling]:
    """Returns the autoscaler's statements about each pod without a node, by the pods' uids; empty
    if the head may not see its events, or there is no autoscaler."""
    latest: dict[str, tuple[float, str]] = {}
    since: dict[str, float] = {}
    with suppressed(FORBIDDEN):
        for reason in ("TriggeredScaleUp", "NotTriggerScaleUp"):
            query = {"fieldSelector": f"involvedObject.kind=Pod,reason={reason}"}
            for event in api.list("events", query):
                uid = event["involvedObject"].get("uid", "")
                # One in seconds, the other in microseconds.
                when = parse_time(event.get("lastTimestamp") or event.get("eventTime"))
                said = (event.get("message") or "").removeprefix("pod didn't trigger scale-up: ")
                says = f"the autoscaler starts none: {said}"
                if reason == "TriggeredScaleUp":
                    says, since[uid] = _SCALES, max(when, since.get(uid, 0.0))
                if uid not in latest or when >= latest[uid][0]:
                    latest[uid] = when, says
    return {uid: Scaling(why, since.get(uid, 0.0)) for uid, (_, why) in latest.items()}


def _why(workload: Object, ahead: int) -> str | None:
    """Returns why Kueue holds a workload; None if Kueue has not looked at it yet."""
    if not _is_active(workload):
        evicted = (each for each in conditions_of(workload) if each["type"] == "Evicted")
        said = next((each.get("message") for each in evicted), "") or "it was stopped by someone"
        return f"its queue has put it back: {said}"
    checks = (workload.get("status") or {}).get("admissionChecks") or ()
    for check in checks:
        if check.get("state") in _REFUSED:
            said = check.get("message") or check["state"]
            return f"waiting for {check['name']}: {said}"
    if find_condition(workload, "QuotaReserved"):
        for check in checks:
            if check.get("state") == "Pending":
                count = sum(each["count"] for each in workload["spec"]["podSets"])
                pods = "its pod" if count == 1 else f"all of its {count:,} pods"
                said = check.get("message") or "the autoscaler was asked for them"
                return f"waiting for nodes for {pods}: {said}"
    for each in conditions_of(workload):
        if each["type"] != "QuotaReserved" or each["status"] != "False":
            continue
        cause = (find_condition(workload, "Evicted") or {}).get("reason")
        awaited = "to try again" if cause == "AdmissionCheck" else "for quota"
        text = f"waiting {awaited}: {each.get('message') or each.get('reason', '')}"
        if ahead and each.get("reason") not in _NEVER:
            text = f"{queue_reason(ahead)}; {text}"
        return f"preempted by another job; {text}" if cause == "Preempted" else text
    return None


def conditions_of(found: Mapping[str, Any]) -> Iterable[Object]:
    """Returns an object's conditions, if it has any."""
    return (found.get("status") or {}).get("conditions") or ()


def _is_active(workload: Object) -> bool:
    return bool(workload["spec"].get("active", True))


def _order(workload: Object) -> tuple[int, str, str]:
    """Returns the sort key of a workload: higher priority first, then older ones."""
    about = workload["metadata"]
    return -(workload["spec"].get("priority") or 0), about["creationTimestamp"], about["name"]


INDEX = "batch.kubernetes.io/job-completion-index"
JOB = "batch.kubernetes.io/job-name"
"""Label of a pod that names its Job."""
_MOST_NAMES = 100  # runs in one request


@dataclass
class Objects:
    """The Jobs of some runs by name; the active and the failed pods of each; why Kueue holds one
    back, by its uid; what the autoscaler says of pods, by theirs; and, if a pod has no node, the
    nodes that are `broken`: the health check has cordoned them."""

    jobs: dict[str, Object] = field(default_factory=dict)
    pods: dict[str, list[Object]] = field(default_factory=lambda: defaultdict(list))
    queue_reasons: dict[str, str] = field(default_factory=dict)
    scaling: dict[str, Scaling] = field(default_factory=dict)
    broken: list[Object] = field(default_factory=list)

    def scaling_of(self, pod: Object) -> Scaling:
        """Returns the autoscaler's statement about a pod."""
        about = pod["metadata"]
        known = self.scaling.get(about.get("uid", ""), Scaling())
        is_asked_for = REQUESTED in (about.get("annotations") or {})
        return Scaling(_SCALES) if is_asked_for and not known.says else known


def look(api: Api, runs: Sequence[str]) -> Objects:
    """Lists the Jobs and pods of the runs in few requests, however many there are."""
    found = Objects()
    for start in range(0, len(runs), _MOST_NAMES):
        some = ",".join(run_label(run) for run in runs[start : start + _MOST_NAMES])
        query = {"labelSelector": f"{RUN} in ({some})"}
        for job in api.list("jobs", query):
            found.jobs[job["metadata"]["name"]] = job
        # Very many may have succeeded: their Job lists those.
        active = {**query, "fieldSelector": "status.phase!=Succeeded"}
        for pod in api.list("pods", active):
            found.pods[pod["metadata"].get("labels", {}).get(JOB, "")].append(pod)
    if any(each["spec"].get("suspend") for each in found.jobs.values()):
        found.queue_reasons = queue_reasons(api)
    if any(unscheduled(pod) for pods in found.pods.values() for pod in pods):
        found.scaling = scaling(api)
        with suppressed(FORBIDDEN):  # then none is known
            nodes = api.list("nodes", {})
            found.broken = [
                each for each in nodes if CORDONED in (each["metadata"].get("annotations") or {})
            ]
    return found


def unscheduled(pod: Object) -> Object | None:
    """Returns the scheduler's condition of a pod that has no node; None for other pods."""
    return find_condition(pod, "PodScheduled", "False")


def index_of(pod: Object) -> int:
    """Returns the pod's index in its Job; −1 if it has none."""
    facts = pod["metadata"]
    text = (facts.get("annotations") or {}).get(INDEX) or (facts.get("labels") or {}).get(INDEX)
    return int(text) if text and text.isdecimal() else -1


def find_condition(found: Object, kind: str, status: str = "True") -> Object | None:
    """Returns an object's condition of that type, if it has that status."""
    listed = (each for each in conditions_of(found) if each["type"] == kind)
    return next((each for each in listed if each["status"] == status), None)


def has_ended(pod: Object) -> bool:
    """Returns True if the pod's containers have ended and do not start again."""
    return pod["status"].get("phase") in ("Succeeded", "Failed")


def lists_number(intervals: str | None, number: int) -> bool:
    """Returns True if a number is among those that a Job's status lists.

    >>> lists_number("0,1,3-5", 4), lists_number("0,1,3-5", 2), lists_number(None, 0)
    (True, False, False)
    """
    for each in filter(None, (intervals or "").split(",")):
        first, _, last = each.partition("-")
        if int(first) <= number <= int(last or first):
            return True
    return False


def parse_time(text: str | None) -> float:
    """Parses a time of the API into seconds since 1970; 0 for none."""
    return datetime.fromisoformat(re.sub("Z$", "+00:00", text)).timestamp() if text else 0.0


def selector(run: str) -> dict[str, str]:
    """Returns the query that lists the objects with a run's name."""
    return {"labelSelector": f"{RUN}={run_label(run)}"}


def jobs_of(api: Api, folder: Path, claims: Collection[str] | None = None) -> Sequence[Object]:
    """Lists the Jobs that belong to the run in this folder; see `owns` for the `claims`."""
    listed = api.list("jobs", selector(folder.name))
    return [each for each in listed if owns(folder, each, claims)]


def owns(folder: Path, found: Object, claims: Collection[str] | None = None) -> bool:
    """Returns True if a Job or a pod belongs to the run in this folder: its programs look for the
    run there, on these `claims`, by default those of the run's files. False if neither exists, so
    that this cannot be known."""
    spec = found["spec"].get("template", found)["spec"]
    words = [word for each in spec.get("containers") or () for word in each.get("command") or ()]
    if str(folder) not in words:
        return False
    if claims is None:
        pods = pods_of(folder)
        claims = () if pods is None else pods.volumes.values()
    volumes = spec.get("volumes") or ()
    used = {each.get("persistentVolumeClaim", {}).get("claimName") for each in volumes} - {None}
    return bool(claims) and set(claims) == used
