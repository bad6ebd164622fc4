"""A Job and its pods: what has ended and how, what is decided by it, and which pods are lacking.

Held to what the real controller of 1.36.2 did: `SuccessCriteriaMet` and `FailureTarget` come
first, `Complete` and `Failed` when no pod is left that runs.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from fairway_simulator.kubernetes.events import condition_of, is_true, now, with_condition

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

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
    metadata = pod["metadata"]
    for each in pod["status"].get("containerStatuses") or ():
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


def spelled(indexes: Iterable[int]) -> str:
    """The text for a set."""
    parts: list[list[int]] = []
    for index in sorted(indexes):
        if parts and parts[-1][1] == index - 1:
            parts[-1][1] = index
        else:
            parts.append([index, index])
    # Two that are neighbours are no range yet.
    texts = {0: "{0}", 1: "{0},{1}"}
    return ",".join(texts.get(b - a, "{0}-{1}").format(a, b) for a, b in parts)


def parsed(text: str) -> set[int]:
    """The set that a text means."""
    found: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        found |= set(range(int(first), int(last or first) + 1))
    return found


Memory = dict[int, tuple[int, str]]
"""For each index how often it failed, and when it did last."""

TRACKED = "batch.kubernetes.io/job-tracking"
INDEX = "batch.kubernetes.io/job-completion-index"
FAILURES = "batch.kubernetes.io/job-index-failure-count"


class JobState:
    """State of a Job at one moment; `memory` is kept from one to the next."""

    def __init__(self, job: Object, pods: list[Object], memory: Memory) -> None:
        self.job = job
        self.spec = job["spec"]
        self.status: dict[str, Any] = copy.deepcopy(job.get("status") or {})
        self._memory = memory
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
        self._verdict = self._failing_rule(pods)
        """The reason and the message of a rule that ends the whole Job."""

    @property
    def is_decided(self) -> bool:
        """True if it is known how the Job ends."""
        return self._decision() != {}

    def count(self) -> list[Object]:
        """Counts the pods that have ended and were not counted; returns them."""
        counted = [pod for pod in self._uncounted if is_ended(pod)]
        for pod in counted:
            if pod["status"]["phase"] != "Succeeded":
                self._count_failure(pod)
            elif index_of(pod) < self._completions and index_of(pod) not in self._failed:
                self._succeeded.add(index_of(pod))
        return counted

    def decide(self) -> None:
        """Finds out whether the Job is over, one way or the other."""
        if self.is_decided:
            return
        failure = self._failure()
        success = self._success() if failure is None else None
        for kind, found in (("FailureTarget", failure), ("SuccessCriteriaMet", success)):
            if found is not None:
                reason, message = found
                self.status = with_condition(self.status, kind, reason, message)

    def room(self) -> int:
        """Number of further pods that may run."""
        busy = len(self._active)
        if self.spec["podReplacementPolicy"] == "Failed":
            busy += len(self._terminating)
        return int(self.spec["parallelism"]) - busy

    def missing(self) -> Iterator[tuple[int, int]]:
        """The indexes that lack a pod, with how often they failed."""
        taken = self._succeeded | self._failed | {index_of(pod) for pod in self._active}
        if self.spec["podReplacementPolicy"] == "Failed":
            taken |= {index_of(pod) for pod in self._terminating}
        for index in range(self._completions):
            if index not in taken:
                yield index, self._memory.get(index, (0, ""))[0]

    def surplus(self) -> list[Object]:
        """Pods that run beyond what is wanted, the youngest first."""
        most = int(self.spec["parallelism"])
        order = sorted(self._active, key=lambda pod: int(pod["metadata"]["resourceVersion"]))
        kept = [pod for pod in order if index_of(pod) < self._completions][:most]
        return [pod for pod in self._active if pod not in kept]

    def added(self, pod: Object) -> None:
        """A pod was made."""
        self._active.append(pod)

    def last_failure(self, index: int) -> str:
        """When that index failed last, "" where it did not."""
        return self._memory.get(index, (0, ""))[1]

    def suspend(self) -> bool:
        """Says that the Job is suspended; whether that is new."""
        new = not is_true({"status": self.status}, "Suspended")
        self.status = with_condition(self.status, "Suspended", "JobSuspended", "Job suspended")
        self.status.pop("startTime", None)
        return new

    def resume(self) -> bool:
        """Says that the Job goes on; whether it was suspended."""
        if not is_true({"status": self.status}, "Suspended"):
            return False
        self.status = with_condition(
            self.status, "Suspended", "JobResumed", "Job resumed", holds=False
        )
        self.status["startTime"] = now()
        return True

    def finish(self) -> None:
        """Says that the Job is over, if it is decided and nothing of it runs any more."""
        decision = self._decision()
        if not decision or self._active or self._terminating:
            return
        kind = "Complete" if decision["type"] == "SuccessCriteriaMet" else "Failed"
        self.status = with_condition(self.status, kind, decision["reason"], decision["message"])
        if kind == "Complete":
            self.status.setdefault("completionTime", now())

    def wire(self) -> dict[str, Any]:
        """The status as it is written."""
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
        index = index_of(pod)
        action, _ = ruling(self.spec.get("podFailurePolicy"), pod)
        if action == "Ignore":
            return
        self.status["failed"] = self.status.get("failed", 0) + 1
        failures = self._memory.get(index, (0, ""))[0] + 1
        self._memory[index] = failures, now()
        limit = self.spec.get("backoffLimitPerIndex")
        if limit is not None and (action == "FailIndex" or failures > limit):
            self._failed.add(index)

    def _failing_rule(self, pods: Iterable[Object]) -> tuple[str, str] | None:
        """By each failed pod that is there, counted or not. Source: `getFailJobMessage`."""
        for pod in pods:
            if pod["status"].get("phase") == "Failed":
                action, message = ruling(self.spec.get("podFailurePolicy"), pod)
                if action == "FailJob":
                    return "PodFailurePolicy", message
        return None

    def _failure(self) -> tuple[str, str] | None:
        spec = self.spec
        if self._verdict:
            return self._verdict
        if self.status.get("failed", 0) > spec["backoffLimit"]:
            return "BackoffLimitExceeded", "Job has reached the specified backoff limit"
        all_over = len(self._failed | self._succeeded) >= self._completions
        if self._failed and all_over and self._success() is None:
            return "FailedIndexes", "Job has failed indexes"
        return None

    def _success(self) -> tuple[str, str] | None:
        for number, rule in enumerate((self.spec.get("successPolicy") or {}).get("rules") or ()):
            wanted = rule.get("succeededIndexes")
            meant = parsed(wanted) if wanted is not None else set(self._succeeded)
            enough = rule.get("succeededCount") or len(meant)
            if enough and len(self._succeeded & meant) >= enough:
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
    """A pod's index: 0 for the only one of a Job without indexes."""
    return int((pod["metadata"].get("annotations") or {}).get(INDEX, 0))


def is_indexed(job: Object) -> bool:
    """True for a Job whose pods have indexes; one whose pods have none has one pod at a time."""
    return bool(job["spec"]["completionMode"] == "Indexed")


def is_ended(pod: Object) -> bool:
    """True if nothing of a pod runs any more."""
    return pod["status"].get("phase") in ("Succeeded", "Failed")
