"""The pool of a target: its size, what keeps it from growing, what is wrong with its nodes."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from fairway_runner.engines.azure.calls import ServiceError
from fairway_runner.engines.batch.states import seconds

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fairway_runner.engines.batch.client import Account

# Nodes on which a task may start sooner or later.
USABLE = frozenset(
    {"idle", "running", "creating", "starting", "waitingforstarttask", "rebooting", "reimaging"}
)
_MOST_COUNTED = 10  # jobs whose tasks are asked for, each by a request of its own
_TAIL = 2000  # bytes of a start task's stderr that are shown


def current_nodes(pool: Mapping[str, Any]) -> int:
    """How many nodes the pool has."""
    return int(pool.get("currentDedicatedNodes") or 0) + int(
        pool.get("currentLowPriorityNodes") or 0
    )


def wanted_nodes(pool: Mapping[str, Any]) -> int:
    """How many it is to have."""
    return int(pool.get("targetDedicatedNodes") or 0) + int(pool.get("targetLowPriorityNodes") or 0)


def resize_errors(pool: Mapping[str, Any]) -> list[str]:
    """Why the pool did not become as large as it was to be: quota or allocation, with the text."""
    found = []
    for error in pool.get("resizeErrors") or ():
        details = [f"{each.get('name')} {each.get('value')}" for each in error.get("values") or ()]
        text = ". ".join([str(error.get("message") or ""), *details])
        found.append(f"{error.get('code')}: {text}")
    return found


def why_waiting(account: Account, job: Mapping[str, Any]) -> tuple[str, bool]:
    """What a queued run waits for and what is done before its job, in a sentence, and whether
    that is capacity or quota which cannot be had."""
    why, no_capacity = _why_no_node(account)
    return f"{why}{_done_before(account, job)}", no_capacity


def _done_before(account: Account, job: Mapping[str, Any]) -> str:
    """How many tasks of other jobs Batch starts before those of this one; "" where there are none:
    it goes by priority, and then by when a job was made."""
    own, tasks, jobs = _turn(job), 0, 0
    try:
        active = (each for each in account.jobs() if str(each["state"]).lower() == "active")
        before = sorted((each for each in active if _turn(each) < own), key=_turn)
        for each in before[:_MOST_COUNTED]:
            waiting = int(account.task_counts(str(each["id"])).get("active", 0))
            tasks, jobs = tasks + waiting, jobs + (waiting > 0)
    except ServiceError:
        return ""  # the rest is worth telling without
    if not tasks:
        return ""
    least = "at least " if len(before) > _MOST_COUNTED else ""
    verb = "comes" if tasks == 1 else "come"
    return (
        f"; {least}{tasks:,} task{'s' * (tasks != 1)} of {jobs} other job{'s' * (jobs != 1)} "
        f"{verb} first"
    )


def _turn(job: Mapping[str, Any]) -> tuple[int, float, str]:
    """By what Batch orders the jobs of a pool."""
    made = seconds(job.get("creationTime")) or 0.0
    return -int(job.get("priority") or 0), made, str(job["id"])


def _why_no_node(account: Account) -> tuple[str, bool]:
    try:
        pool = account.pool_facts()
    except ServiceError as error:
        return str(error), False
    if errors := resize_errors(pool):
        return f"the pool cannot grow: {errors[0]}", True
    counts = Counter(str(node["state"]).lower() for node in account.nodes())
    known = ", ".join(f"{count} {state}" for state, count in sorted(counts.items()))
    steady = str(pool.get("allocationState") or "").lower()
    growing = "" if steady == "steady" else f", which is {steady}"
    return f"waiting for nodes; the pool{growing} has {known or 'none'}", False


def start_task_words(account: Account, node: Mapping[str, Any]) -> str:
    """The end of what a node's start task wrote to its stderr; "" where it cannot be read."""
    try:
        data = account.node_file(str(node["id"]), "startup/stderr.txt", 0, 8 << 20)
    except ServiceError:
        return ""
    return data[-_TAIL:].decode(errors="replace").strip()


def node_fault(account: Account, node: Mapping[str, Any]) -> str:
    """Why a node is not fit for work; "" where it is."""
    state = str(node["state"]).lower()
    if state == "offline" or str(node.get("schedulingState") or "").lower() == "disabled":
        return "drained: no task starts there"
    if state in USABLE:
        return ""
    if state == "starttaskfailed":
        words = start_task_words(account, node)
        return f"its start task failed: {words}" if words else "its start task failed"
    errors = [str(error.get("message") or error.get("code")) for error in node.get("errors") or ()]
    return "; ".join(errors) or state
