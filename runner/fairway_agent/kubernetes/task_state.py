"""What became of one task, from what it wrote itself and what the API server says. Standard library
only."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from fairway_agent.kubernetes.objects import (
    condition,
    holds,
    is_over,
    moment,
    unscheduled,
)
from fairway_agent.shared.resolved_state import ResolvedState, ended, waiting
from fairway_agent.task_state import CANCELLED, KILLED, SERVICE, TIMED_OUT, TaskState

if TYPE_CHECKING:
    from fairway_agent.kubernetes.objects import Object, Objects
    from fairway_agent.kubernetes.queueing import Why
    from fairway_agent.shared.submissions import Part

# Seconds after a pod's end in which its last words may still be on their way: for so long an NFS
# client may believe what it has seen of a folder before.
_LAST_WORDS = 60.0
# Seconds after which nobody starts nodes for a pod that no node fits: an autoscaler says so sooner.
_UNFIT = 180.0
_NO_ROOM = ("Insufficient", "Too many pods")
_LONGEST = 300  # characters of what somebody else says

_PULLING = ("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull")
_BAD_CONFIG = ("CreateContainerConfigError", "CreateContainerError", "RunContainerError")
_WITHOUT_WORD = "its pod ended before it could report why: kubectl logs {pod}"


@dataclass(frozen=True)
class Element:
    """A task as the API server sees it: `state` is waiting, running, succeeded or failed; `why` it
    waits or has failed, its exit `code` then, the name of its `pod`, and when it `ended`.
    `no_capacity` says that its nodes cannot be had, and `unfit_since` from when no node was one
    that it might have, however empty."""

    state: str
    why: str = ""
    code: int = SERVICE
    pod: str = ""
    ended: float = 0.0
    no_capacity: bool = False
    unfit_since: float = 0.0


def element_of(found: Objects, part: Part, index: int) -> Element | None:
    """The task of that number as one of a part's pods, or as the first of all of them; None where
    its Job is not there."""
    job = found.jobs.get(part.job)
    if job is None:
        return None
    position = 0 if part.nodes > 1 else part.indices.index(index)
    pods = found.pods_of(part.job, position)
    pod = next((each for each in pods if not is_over(each)), None)
    if end := _end(job, part, position):
        if pod is not None and end.state == "failed" and not condition(job, "Failed"):
            return Element("running", pod=pod["metadata"]["name"])  # it has its grace
        return _told(job, end, pods)
    if pod is not None and pod["status"].get("phase") == "Running":
        return Element("running", _lacking(found, part), pod=pod["metadata"]["name"])
    if job["spec"].get("suspend"):
        held = found.held.get(job["metadata"].get("uid", ""))
        if held is None:
            return Element("waiting", "waiting for its turn in the queue")
        return Element("waiting", _short(held.text), no_capacity=held.no_capacity)
    if pod is None:
        return Element("waiting", "waiting for its turn")
    return _pending(pod, found.scaling.get(pod["metadata"].get("uid", "")))


def _pending(pod: Object, scaling: Why | None) -> Element:
    element = Element("waiting", why_pending(pod, scaling), pod=pod["metadata"]["name"])
    said = unscheduled(pod)
    if said is None or (scaling is not None and scaling.is_starting):
        return element
    # What waits for others to end lacks room, and nothing else, on some node.
    no_room = any(word in said.get("message", "") for word in _NO_ROOM)
    since = 0.0 if no_room else moment(said.get("lastTransitionTime"))
    refused = scaling is not None and scaling.no_capacity
    return replace(element, no_capacity=refused, unfit_since=since)


def why_pending(pod: Object, scaling: Why | None = None) -> str:
    """Why a pod does not run yet; `scaling` is what the autoscaler says of it."""
    if (found := unscheduled(pod)) is not None:
        said = re.sub(r"^\S+ nodes are available: ", "", found.get("message", ""))
        why = f"waiting for a node: {_short(said.partition(' preemption:')[0]) or 'none fits'}"
        return f"{why}; {_short(scaling.text)}" if scaling is not None else why
    return why_stuck(pod) or "its pod is starting"


def why_stuck(pod: Object) -> str:
    """Why a pod that has a node does not get its container; "" where it does, or did."""
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
    """Whether it has yet to begin."""
    return pod["status"].get("phase") == "Pending" and "deletionTimestamp" not in pod["metadata"]


def resolve_state(
    status: TaskState | None,
    element: Element | None,
    *,
    cancelled: bool,
    now: float,
    to_come: str = "",
) -> ResolvedState:
    """`status` is what the task wrote last, if anything; `element` what the API server says, None
    where it knows of no Job; `cancelled` says that somebody has ended the whole run, and `to_come`
    what the task waits for whose Job is still to be made."""
    known = status or TaskState()
    if known.is_final:
        if element and element.code == KILLED and element.why and not known.reason:
            known = replace(known, reason=element.why)
        return ResolvedState(known)
    if element is None:
        if cancelled:
            return ResolvedState(ended(known, "cancelled", CANCELLED, "", now))
        if to_come:
            return waiting(known, to_come, "")
        return ResolvedState(ended(known, "lost", SERVICE, "its Job is gone from Kubernetes", now))
    if element.state in ("failed", "succeeded"):
        return _resolve_ended(known, element, cancelled=cancelled, now=now)
    # What was listed may be older than what its pod has written since.
    begun = known.state == "running" and known.job == element.pod and not known.stopped
    if element.state == "waiting" and not begun:
        unfit = bool(element.unfit_since) and now - element.unfit_since > _UNFIT
        found = waiting(known, element.why, "it starts again")
        return replace(found, no_capacity=element.no_capacity or unfit)
    if known.state == "queued" and element.why:
        return waiting(known, element.why, "")
    return ResolvedState(known)


def _resolve_ended(
    known: TaskState, element: Element, *, cancelled: bool, now: float
) -> ResolvedState:
    # An index whose end has no time of its own waits for that of its Job.
    is_fresh = now - element.ended < _LAST_WORDS if element.ended else not element.why
    if is_fresh and element.code == SERVICE:
        return ResolvedState(known)
    if cancelled:
        return ResolvedState(ended(known, "cancelled", CANCELLED, "", element.ended or now))
    why = element.why or _WITHOUT_WORD.format(pod=element.pod or "POD")
    return ResolvedState(ended(known, "failed", element.code, why, element.ended or now))


def _end(job: Object, part: Part, position: int) -> Element | None:
    """Whether the task's pods have ended for good."""
    status = job.get("status") or {}
    if part.nodes == 1:
        if holds(status.get("completedIndexes"), position):
            return Element("succeeded")
        if holds(status.get("failedIndexes"), position):
            return Element("failed")
    if condition(job, "SuccessCriteriaMet") or condition(job, "Complete"):
        return Element("succeeded")
    failed = condition(job, "FailureTarget") or condition(job, "Failed")
    return Element("failed") if failed else None


def _told(job: Object, end: Element, pods: list[Object]) -> Element:
    """The same end, with why, with which code, in which pod and when that was."""
    kinds = ("Failed", "Complete", "FailureTarget", "SuccessCriteriaMet")
    over = next(filter(None, (condition(job, kind) for kind in kinds)), {})
    when = moment(over.get("lastTransitionTime"))
    pod = pods[0] if pods else None
    # Those that have succeeded are not listed: one that is was there before.
    if pod is None or end.state == "succeeded":
        return replace(end, ended=when)
    status, name = pod.get("status") or {}, pod["metadata"]["name"]
    states = [(each.get("state") or {}) for each in status.get("containerStatuses") or ()]
    found = [each["terminated"] for each in states if each.get("terminated")]
    terminated: Object = found[0] if found else {}
    when = moment(terminated.get("finishedAt")) or when
    told = replace(end, pod=name, ended=when)
    if terminated.get("reason") == "OOMKilled":
        return replace(told, why="out of memory", code=KILLED)
    if status.get("reason") == "DeadlineExceeded":
        return replace(told, why="its time limit in Kubernetes was over", code=TIMED_OUT)
    if status.get("reason") == "Evicted":
        return replace(told, why=f"evicted: {_short(status.get('message', ''))}")
    if terminated.get("reason") in ("StartError", "ContainerCannotRun"):
        said = _short(terminated.get("message", ""))
        return replace(told, why=f"its image cannot run python3: {said}", code=127)
    return told


def _lacking(found: Objects, part: Part) -> str:
    """What a task waits for whose first pod runs and others do not."""
    if part.nodes == 1:
        return ""
    others = [each for each in found.pods.get(part.job, ()) if not is_over(each)]
    pending = [each for each in others if each["status"].get("phase") != "Running"]
    running = len(others) - len(pending)
    if running >= part.nodes:
        return ""
    why = why_pending(pending[0]) if pending else "waiting for its other pods"
    return f"{running} of its {part.nodes} pods run: {why}"


def _short(text: str) -> str:
    """What somebody else says, in one line."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split()).rstrip(". ")
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}…"
