"""A Job and its pods: their results, the decision that follows from them, and the missing pods.

Follows the real controller of 1.36.2: `SuccessCriteriaMet` and `FailureTarget` come first,
`Complete` and `Failed` once no pod runs any more.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from fairway_simulator.kubernetes.events import condition_of, is_true, now, with_condition

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from fairway_simulator.kubernetes.api.store import Object


def is_ignored(policy: Mapping[str, Any] | None, pod: Object) -> bool:
    """Returns True if a rule matches a failed pod, which then does not count: all rules ignore."""
    rules = (policy or {}).get("rules") or ()
    return any(_has_code(rule, pod) or _has_condition(rule, pod) for rule in rules)


def _has_code(rule: Mapping[str, Any], pod: Object) -> bool:
    codes = rule.get("onExitCodes") or {}
    for each in pod["status"].get("containerStatuses") or ():
        ended = (each.get("state") or {}).get("terminated") or {}
        is_meant = codes.get("containerName") in (None, each["name"])
        if is_meant and ended.get("exitCode") in codes.get("values", ()):
            return True
    return False


def _has_condition(rule: Mapping[str, Any], pod: Object) -> bool:
    return any(
        condition_of(pod, wanted["type"]).get("status") == wanted.get("status", "True")
        for wanted in rule.get("onPodConditions") or ()
    )


def spelled(indexes: Iterable[int]) -> str:
    parts: list[list[int]] = []
    for index in sorted(indexes):
        if parts and parts[-1][1] == index - 1:
            parts[-1][1] = index
        else:
            parts.append([index, index])
    # Two neighbors are written as a list, more as a range.
    texts = {0: "{0}", 1: "{0},{1}"}
    return ",".join(texts.get(b - a, "{0}-{1}").format(a, b) for a, b in parts)


def parsed(text: str) -> set[int]:
    found: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        found |= set(range(int(first), int(last or first) + 1))
    return found


TRACKED = "batch.kubernetes.io/job-tracking"
INDEX = "batch.kubernetes.io/job-completion-index"


class JobState:
    def __init__(self, job: Object, pods: list[Object]) -> None:
        self.job = job
        self.spec = job["spec"]
        self.status: dict[str, Any] = copy.deepcopy(job.get("status") or {})
        self._uncounted = [
            pod for pod in pods if TRACKED in (pod["metadata"].get("finalizers") or ())
        ]
        alive = [pod for pod in pods if not is_ended(pod)]
        self._active = [pod for pod in alive if "deletionTimestamp" not in pod["metadata"]]
        self._terminating = [pod for pod in alive if "deletionTimestamp" in pod["metadata"]]
        self._completions = int(self.spec["completions"])
        self._succeeded = parsed(self.status.get("completedIndexes", ""))
        if not is_indexed(job):
            self._succeeded = set(range(self.status.get("succeeded", 0)))
        self._failed = parsed(self.status.get("failedIndexes", ""))

    @property
    def is_decided(self) -> bool:
        return self._decision() != {}

    def count(self) -> list[Object]:
        """Counts the pods that have ended and were not counted yet, and returns them."""
        counted = [pod for pod in self._uncounted if is_ended(pod)]
        for pod in counted:
            if pod["status"]["phase"] != "Succeeded":
                self._count_failure(pod)
            elif index_of(pod) < self._completions and index_of(pod) not in self._failed:
                self._succeeded.add(index_of(pod))
        return counted

    def decide(self) -> None:
        if self.is_decided:
            return
        failure = self._failure()
        success = self._success() if failure is None else None
        for kind, found in (("FailureTarget", failure), ("SuccessCriteriaMet", success)):
            if found is not None:
                reason, message = found
                self.status = with_condition(self.status, kind, reason, message)

    def room(self) -> int:
        return int(self.spec["parallelism"]) - len(self._active) - len(self._terminating)

    def missing(self) -> Iterator[int]:
        there = {index_of(pod) for pod in (*self._active, *self._terminating)}
        taken = self._succeeded | self._failed | there
        return (index for index in range(self._completions) if index not in taken)

    def added(self, pod: Object) -> None:
        self._active.append(pod)

    def suspend(self) -> bool:
        """Marks the Job as suspended. Returns True if it was not."""
        new = not is_true({"status": self.status}, "Suspended")
        self.status = with_condition(self.status, "Suspended", "JobSuspended", "Job suspended")
        self.status.pop("startTime", None)
        return new

    def resume(self) -> bool:
        """Marks the Job as resumed. Returns True if it was suspended."""
        if not is_true({"status": self.status}, "Suspended"):
            return False
        self.status = with_condition(
            self.status, "Suspended", "JobResumed", "Job resumed", holds=False
        )
        self.status["startTime"] = now()
        return True

    def finish(self) -> None:
        """Marks the Job as complete or failed once that is decided and none of its pods runs."""
        decision = self._decision()
        if not decision or self._active or self._terminating:
            return
        kind = "Complete" if decision["type"] == "SuccessCriteriaMet" else "Failed"
        self.status = with_condition(self.status, kind, decision["reason"], decision["message"])
        if kind == "Complete":
            self.status.setdefault("completionTime", now())

    def wire(self) -> dict[str, Any]:
        ready = [pod for pod in self._active if is_true(pod, "Ready")]
        counts = {
            "active": len(self._active),
            "ready": len(ready),
            "terminating": len(self._terminating),
        }
        found = {**self.status, **counts, "uncountedTerminatedPods": {}}
        found["succeeded"] = len(self._succeeded)
        if is_indexed(self.job):
            found["completedIndexes"] = spelled(self._succeeded)
        if self.spec.get("backoffLimitPerIndex") is not None:
            found["failedIndexes"] = spelled(self._failed)
        shown = ("ready", "terminating", "uncountedTerminatedPods", "failedIndexes")
        return {name: value for name, value in found.items() if value or name in shown}

    def _count_failure(self, pod: Object) -> None:
        if is_ignored(self.spec.get("podFailurePolicy"), pod):
            return
        self.status["failed"] = self.status.get("failed", 0) + 1
        if self.spec.get("backoffLimitPerIndex") is not None:  # always 0 here
            self._failed.add(index_of(pod))

    def _failure(self) -> tuple[str, str] | None:
        if self.status.get("failed", 0) > self.spec["backoffLimit"]:
            return "BackoffLimitExceeded", "Job has reached the specified backoff limit"
        all_over = len(self._failed | self._succeeded) >= self._completions
        if self._failed and all_over and self._success() is None:
            return "FailedIndexes", "Job has failed indexes"
        return None

    def _success(self) -> tuple[str, str] | None:
        for number, rule in enumerate((self.spec.get("successPolicy") or {}).get("rules") or ()):
            if parsed(rule["succeededIndexes"]) <= self._succeeded:
                return "SuccessPolicy", f"Matched rules at index {number}"
        if len(self._succeeded) >= self._completions:
            return "CompletionsReached", "Reached expected number of succeeded pods"
        return None

    def _decision(self) -> dict[str, Any]:
        for kind in ("FailureTarget", "SuccessCriteriaMet"):
            found = condition_of({"status": self.status}, kind)
            if found.get("status") == "True":
                return found
        return {}


def index_of(pod: Object) -> int:
    """Returns a pod's index: 0 for the only pod of a Job without indexes."""
    return int((pod["metadata"].get("annotations") or {}).get(INDEX, 0))


def is_indexed(job: Object) -> bool:
    """Returns True if the pods of a Job have indexes; without them, it has one pod at a time."""
    return bool(job["spec"]["completionMode"] == "Indexed")


def is_ended(pod: Object) -> bool:
    return pod["status"].get("phase") in ("Succeeded", "Failed")
