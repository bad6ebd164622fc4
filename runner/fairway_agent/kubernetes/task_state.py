"""State of a task from Kubernetes' objects, in the words that all schedulers share."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from fairway_agent.kubernetes.api import CORDONED
from fairway_agent.kubernetes.manifests import QUEUE
from fairway_agent.kubernetes.objects import (
    REQUESTED,
    find_condition,
    has_ended,
    index_of,
    lists_number,
    parse_time,
    unscheduled,
)
from fairway_agent.kubernetes.settings import NODE_PROVISIONING
from fairway_agent.reconcile import JobView
from fairway_agent.state_files import KILLED, SERVICE, TIMED_OUT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fairway_agent.control import Part
    from fairway_agent.kubernetes.objects import Object, Objects


_LONGEST = 300  # characters of another program's message
_MOST_NODES = 3  # nodes in a message

_PULLING = ("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull")
_BAD_CONFIG = ("CreateContainerConfigError", "CreateContainerError", "RunContainerError")
GONE = JobView("lost", "its Job is gone from Kubernetes")


def view_of(found: Objects, part: Part, index: int) -> tuple[JobView, str]:
    """Returns the view of a task and the name of its pod, "" without one. The pod is that of the
    task's index, or the first of a task on several nodes."""
    job = found.jobs.get(part.job)
    if job is None:
        return GONE, ""
    position = 0 if part.nodes > 1 else part.indices.index(index)
    pods = [each for each in found.pods.get(part.job, ()) if index_of(each) == position]
    pods.sort(key=lambda each: each["metadata"]["creationTimestamp"], reverse=True)
    pod = next((each for each in pods if not has_ended(each)), None)
    name = "" if pod is None else pod["metadata"]["name"]
    if end := _end(job, part, position):
        if pod is not None and end == "failed" and not find_condition(job, "Failed"):
            return JobView("running"), name  # it is in its grace period
        return _ended(job, pods[0] if pods and end == "failed" else None)
    if pod is not None and pod["status"].get("phase") == "Running":
        return JobView("running", missing_pods(found, part)[0]), name
    if job["spec"].get("suspend"):
        about = job["metadata"]
        if (reason := found.queue_reasons.get(about.get("uid", ""))) is not None:
            why = _short(reason)
        elif QUEUE in (about.get("labels") or {}):
            why = "waiting for its turn in the queue"
        else:
            resume = """-p '{"spec": {"suspend": false}}'"""
            why = "somebody has suspended its Job; to resume it: "
            why += f"kubectl -n {about['namespace']} patch job {about['name']} {resume}"
        return JobView("queued", why), name
    if pod is None:
        return JobView("queued", "waiting for its turn"), name
    pods = found.pods[part.job] if part.nodes > 1 else [pod]
    count = sum(unscheduled(each) is not None for each in pods)
    why = why_pending(pod, found.scaling_of(pod).says, count)
    return JobView("queued", f"{why}{_broken(found, pod)}"), name


def _broken(found: Objects, pod: Object) -> str:
    """Names the broken nodes among those that the pod may use but has not got."""
    if not found.broken or not unscheduled(pod):
        return ""
    wanted = (pod["spec"].get("nodeSelector") or {}).items()
    notes = [
        f"{node['metadata']['name']}: {_short(node['metadata']['annotations'][CORDONED])}"
        for node in found.broken
        if wanted <= (node["metadata"].get("labels") or {}).items()
    ]
    some = f" and {len(notes) - _MOST_NODES} more" if len(notes) > _MOST_NODES else ""
    return f"; broken: {'; '.join(notes[:_MOST_NODES])}{some}" if notes else ""


def why_pending(pod: Object, scaling: str = "", count: int = 1) -> str:
    """Returns why a pod does not run yet; `scaling` is the autoscaler's statement about it, and
    `count` how many pods wait for the same reason."""
    if (found := unscheduled(pod)) is not None:
        said = re.sub(r"^\S+ nodes are available: ", "", found.get("message", ""))
        nodes = "a node" if count == 1 else f"{count} nodes"
        why = f"waiting for {nodes}: {_short(said.partition(' preemption:')[0]) or 'none fits'}"
        return f"{why}; {_short(scaling)}" if scaling else why
    return why_stuck(pod) or "its pod is starting"


def why_stuck(pod: Object) -> str:
    """Returns why a pod that has a node does not get its container; "" if it does, or did."""
    for each in (pod.get("status") or {}).get("containerStatuses") or ():
        state = (each.get("state") or {}).get("waiting") or {}
        reason, said = state.get("reason", ""), _short(state.get("message", ""))
        if reason in _PULLING:
            image = _short(each.get("image", ""))
            return f"its image {image} cannot be pulled: {said or reason}"
        if reason in _BAD_CONFIG:
            return f"its container cannot be made: {said or reason}"
    return ""


def is_pending(pod: Object) -> bool:
    """Returns True if the pod has yet to begin."""
    return pod["status"].get("phase") == "Pending" and "deletionTimestamp" not in pod["metadata"]


def _end(job: Object, part: Part, position: int) -> str:
    """Returns how the task's pods have ended for good; "" if they are still active."""
    status = job.get("status") or {}
    if part.nodes == 1:
        if lists_number(status.get("completedIndexes"), position):
            return "succeeded"
        if lists_number(status.get("failedIndexes"), position):
            return "failed"
    if find_condition(job, "SuccessCriteriaMet") or find_condition(job, "Complete"):
        return "succeeded"
    return "failed" if find_condition(job, "FailureTarget") or find_condition(job, "Failed") else ""


def _ended(job: Object, pod: Object | None) -> tuple[JobView, str]:
    """Returns the view of a task whose pods have ended, and the name of the last of them, "" if it
    is not listed, as those that succeeded are not."""
    kinds = ("Failed", "Complete", "FailureTarget", "SuccessCriteriaMet")
    over = next(filter(None, (find_condition(job, kind) for kind in kinds)), {})
    ended, code, reason, name = parse_time(over.get("lastTransitionTime")), SERVICE, "", ""
    if pod is not None:
        status, name = pod.get("status") or {}, pod["metadata"]["name"]
        states = [(each.get("state") or {}) for each in status.get("containerStatuses") or ()]
        terminated: Object = next(filter(None, (each.get("terminated") for each in states)), {})
        ended = parse_time(terminated.get("finishedAt")) or ended
        if terminated.get("reason") == "OOMKilled":
            code, reason = KILLED, "out of memory"
        elif status.get("reason") == "DeadlineExceeded":
            code, reason = TIMED_OUT, "its time limit in Kubernetes was over"
        elif status.get("reason") == "Evicted":
            reason = f"evicted: {_short(status.get('message', ''))}"
        elif terminated.get("reason") in ("StartError", "ContainerCannotRun"):
            said = _short(terminated.get("message", ""))
            code, reason = 127, f"its image cannot run python3: {said}"
    silent = f"its pod ended before it could report why: kubectl logs {name}"
    return JobView(
        "failed",
        reason or (silent if name else "its pod ended or was deleted before it could report why"),
        code,
        ended,
        # An index without its own end time waits for its Job's.
        unreported=not reason,
        timed_out=code == TIMED_OUT,
    ), name


def missing_pods(found: Objects, part: Part) -> tuple[str, float]:
    """Returns why a task waits whose first pod runs and others do not, "" if none is missing, and
    when nodes were last started for these, in seconds since 1970."""
    if part.nodes == 1:
        return "", 0.0
    others = [each for each in found.pods.get(part.job, ()) if not has_ended(each)]
    pending = [each for each in others if each["status"].get("phase") != "Running"]
    running = len(others) - len(pending)
    if running >= part.nodes:
        return "", 0.0
    why, since = "waiting for its other pods", 0.0
    if pending:
        unplaced = [each for each in pending if unscheduled(each) is not None]
        waiting = (unplaced or pending)[0]
        why = why_pending(waiting, found.scaling_of(waiting).says, len(unplaced))
        why += _broken(found, waiting)
        since = max(found.scaling_of(each).since for each in pending)
    return f"{running} of its {part.nodes} pods run: {why}", since


def _short(text: str) -> str:
    """Shortens text from another program to one line."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split()).rstrip(". ")
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}…"


# Seconds since it was first seen: registries may fail for a while.
PATIENCE = 300.0


def stuck_pods(objects: Objects, job: str) -> Iterator[tuple[Object, str]]:
    """Yields the pods of a Job that are stuck, and why."""
    for pod in objects.pods.get(job, ()) if job else ():
        why = why_stuck(pod) if pod["status"].get("phase") == "Pending" else ""
        if why and "deletionTimestamp" not in pod["metadata"]:
            yield pod, why


# Seconds for which nodes are reserved for the pods of the request that started them. Source:
# Kubernetes autoscaler, processors/provreq/processor.go.
_BOOKED = 600.0


def unrequested_pods(objects: Objects, job: str, now: float) -> Iterator[str]:
    """Yields the names of the Job's pods that lack a node, and whose request asks for no more
    nodes: it was met before they took the place of others, or a node that it started has not
    come."""
    status = objects.jobs.get(job, {}).get("status") or {}
    began = parse_time(status.get("startTime"))
    for pod in objects.pods.get(job, ()):
        about = pod["metadata"]
        if not is_pending(pod) or unscheduled(pod) is None:
            continue
        made = parse_time(about["creationTimestamp"])
        is_late = made > began + _BOOKED or now > made + NODE_PROVISIONING
        if is_late and REQUESTED in (about.get("annotations") or {}):
            yield about["name"]
