"""The pool of a target and its nodes: their state, and what is done to them."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from fairway_core.findings import UserError
from fairway_runner.engines.azure.calls import ServiceError
from fairway_runner.engines.batch import names
from fairway_runner.engines.batch.states import seconds
from fairway_runner.engines.engine import Node

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


def why_waiting(account: Account, job: Mapping[str, Any]) -> str:
    """Why a queued run waits, in a sentence, and the work that is done before its job."""
    return f"{_why_no_node(account)}{_done_before(account, job)}"


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


def _why_no_node(account: Account) -> str:
    try:
        pool = account.pool_facts()
    except ServiceError as error:
        return str(error)
    if errors := resize_errors(pool):
        return f"the pool cannot grow: {errors[0]}"
    counts = Counter(str(node["state"]).lower() for node in account.nodes())
    known = ", ".join(f"{count} {state}" for state, count in sorted(counts.items()))
    steady = str(pool.get("allocationState") or "").lower()
    growing = "" if steady == "steady" else f", which is {steady}"
    return f"waiting for nodes; the pool{growing} has {known or 'none'}"


def node_fault(account: Account, node: Mapping[str, Any]) -> str:
    """Why a node is not fit for work; "" where it is."""
    state = str(node["state"]).lower()
    if state == "offline" or str(node.get("schedulingState") or "").lower() == "disabled":
        return "drained: no task starts there"
    if state in USABLE:
        return ""
    if state == "starttaskfailed":
        try:
            data = account.node_file(str(node["id"]), "startup/stderr.txt", 0, 8 << 20)
        except ServiceError:
            data = b""  # it cannot be read
        words = data[-_TAIL:].decode(errors="replace").strip()
        return f"its start task failed: {words}" if words else "its start task failed"
    errors = [str(error.get("message") or error.get("code")) for error in node.get("errors") or ()]
    return "; ".join(errors) or state


# For each action Batch's own verb and body. What runs begins again elsewhere (requeue).
_ACTIONS: dict[str, tuple[str, dict[str, str]]] = {
    "reboot": ("reboot", {"nodeRebootOption": "requeue"}),
    "reimage": ("reimage", {"nodeReimageOption": "requeue"}),
    "drain": ("disablescheduling", {"nodeDisableSchedulingOption": "taskcompletion"}),
    "resume": ("enablescheduling", {}),
}


def nodes(account: Account) -> list[Node]:
    """Every node, in the order of their names, with the reason where one is unfit."""
    return sorted((_node(account, node) for node in account.nodes()), key=lambda node: node.name)


def _node(account: Account, node: Mapping[str, Any]) -> Node:
    state = str(node["state"]).lower()
    tasks = node.get("recentTasks") or () if state == "running" else ()
    jobs = [each.get("jobId") for each in tasks if str(each.get("taskState")).lower() == "running"]
    kind = "dedicated" if node.get("isDedicated") else "spot"
    return Node(
        name=str(node["id"]),
        state=state,
        address=str(node.get("ipAddress") or ""),
        run=names.run_of(str(jobs[0])) if jobs else "",
        reason=node_fault(account, node),
        facts={"Size": str(node.get("vmSize") or ""), "Kind": kind},
    )


def act(account: Account, action: str, node: str) -> None:
    """Does one of `_ACTIONS` to a node; what runs goes on elsewhere. UserError for no such one."""
    verb, body = _ACTIONS[action]
    path = f"/pools/{account.pool}/nodes/{node}/{verb}"
    try:
        account.order(f"to {action} {node}", "POST", path, **body)
    except ServiceError as error:
        if error.code == "NodeAlreadyInTargetSchedulingState":
            return  # somebody has done so already
        if not error.is_missing:
            raise
        raise unknown_node(account, node) from None


def resize(account: Account, nodes: int) -> None:
    """Asks for that many nodes, Spot ones where the target's are."""
    target = account.target
    if nodes > target.nodes.max:
        message = f"`{target.name}` has at most {target.nodes.max} nodes"
        hint = "raise `nodes:` of the cluster in the environment file, and deploy it"
        raise UserError.of("too-many-nodes", message, hint)
    pool = account.pool_facts()
    if pool.get("enableAutoScale"):
        message = f"the pool `{account.pool}` scales by its formula"
        hint = "change the limits in the environment file, and deploy it"
        raise UserError.of("autoscaled-pool", message, hint)
    kind = "targetLowPriorityNodes" if target.spot else "targetDedicatedNodes"
    options = {kind: nodes, "nodeDeallocationOption": "taskcompletion"}
    path = f"/pools/{account.pool}/resize"
    account.order(f"{nodes} nodes", "POST", path, **options)


def unknown_node(account: Account, node: str) -> UserError:
    """Returns the error for a node that the pool does not have."""
    hint = f"its nodes: fairway nodes list {account.target.name}"
    return UserError.of("unknown-node", f"the pool has no node `{node}`", hint)
