"""The pool of a target and its nodes: their state, actions on them, and checks."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

from fairway_agent.fanout import sshd_mesh
from fairway_agent.spec import CANCEL
from fairway_core.findings import Finding, Severity, UserError
from fairway_runner.engines.azure_calls import ServiceError
from fairway_runner.engines.azure_storage import CODE, OUTPUTS, Storage
from fairway_runner.engines.batch import client
from fairway_runner.engines.batch.client import state_of
from fairway_runner.engines.batch.states import seconds
from fairway_runner.engines.engine import Node

if TYPE_CHECKING:
    from fairway_core.target import Target
    from fairway_runner.engines.batch.client import Account, Facts
    from fairway_runner.jobs.job import Job

# States of nodes on which a task may start sooner or later.
USABLE = frozenset(
    {"idle", "running", "creating", "starting", "waitingforstarttask", "rebooting", "reimaging"}
)
_DRAINED = "drained: no task starts there"
_MOST_COUNTED = 10  # jobs whose tasks are counted, with one request each
_TAIL = 2000  # bytes of a start task's stderr to show


def nodes_of(pool: Facts, which: Literal["current", "target"]) -> int:
    """Returns how many nodes the pool has now, or is to have, dedicated and Spot."""
    return sum(int(pool.get(f"{which}{kind}Nodes") or 0) for kind in ("Dedicated", "LowPriority"))


def resize_errors(pool: Facts) -> list[str]:
    """Returns why the pool did not reach its size: quota or allocation, with the text."""
    found = []
    for error in pool.get("resizeErrors") or ():
        details = [f"{each.get('name')} {each.get('value')}" for each in error.get("values") or ()]
        text = ". ".join([str(error.get("message") or ""), *details])
        found.append(f"{error.get('code')}: {text}")
    return found


def why_waiting(account: Account, job: Facts) -> str:
    """Returns why a queued run waits, in a sentence, and the work that is done before its job."""
    try:
        pool = account.pool_facts()
    except ServiceError as error:
        why = str(error)
    else:
        if errors := resize_errors(pool):
            why = f"the pool cannot grow: {errors[0]}"
        else:
            counts = Counter(state_of(node) for node in account.nodes())
            known = ", ".join(f"{count} {state}" for state, count in sorted(counts.items()))
            steady = str(pool.get("allocationState") or "").lower()
            growing = "" if steady == "steady" else f", which is {steady}"
            why = f"waiting for nodes; the pool{growing} has {known or 'none'}"
    return f"{why}{_done_before(account, job)}"


def _done_before(account: Account, job: Facts) -> str:
    """Formats how many tasks of other jobs Batch starts before those of this one; "" for none.
    Batch goes by priority, and then by the time at which a job was created."""
    own, tasks, jobs = _turn(job), 0, 0
    try:
        active = (each for each in account.jobs() if state_of(each) == "active")
        before = sorted((each for each in active if _turn(each) < own), key=_turn)
        for each in before[:_MOST_COUNTED]:
            waiting = int(account.task_counts(str(each["id"])).get("active", 0))
            tasks, jobs = tasks + waiting, jobs + (waiting > 0)
    except ServiceError:
        return ""  # the rest of the message is useful without it
    if not tasks:
        return ""
    least = "at least " if len(before) > _MOST_COUNTED else ""
    verb = "comes" if tasks == 1 else "come"
    return (
        f"; {least}{tasks:,} task{'s' * (tasks != 1)} of {jobs} other job{'s' * (jobs != 1)} "
        f"{verb} first"
    )


def _turn(job: Facts) -> tuple[int, float, str]:
    """Returns the sort key by which Batch orders the jobs of a pool."""
    made = seconds(job.get("creationTime")) or 0.0
    return -int(job.get("priority") or 0), made, str(job["id"])


def node_fault(account: Account, node: Facts) -> str:
    """Returns why a node is unfit for work; "" if it is fit."""
    state = state_of(node)
    if state == "offline" or str(node.get("schedulingState") or "").lower() == "disabled":
        return _DRAINED
    if state in USABLE:
        return ""
    if state == "starttaskfailed":
        try:
            data = account.node_file(str(node["id"]), "startup/stderr.txt", 0, 8 << 20)
        except ServiceError:
            data = b""  # unreadable
        words = data[-_TAIL:].decode(errors="replace").strip()
        return f"its start task failed{words and f': {words}'}"
    errors = [str(error.get("message") or error.get("code")) for error in node.get("errors") or ()]
    return "; ".join(errors) or state


def node_of(account: Account, node: Facts) -> Node:
    """Returns a node of the pool, with the reason if it is unfit."""
    state = state_of(node)
    tasks = node.get("recentTasks") or () if state == "running" else ()
    jobs = [each.get("jobId") for each in tasks if str(each.get("taskState")).lower() == "running"]
    kind = "dedicated" if node.get("isDedicated") else "spot"
    return Node(
        name=str(node["id"]),
        state=state,
        address=str(node.get("ipAddress") or ""),
        run=client.run_of(str(jobs[0])) if jobs else "",
        reason=node_fault(account, node),
        facts={"Size": str(node.get("vmSize") or ""), "Kind": kind},
    )


_QUOTA = "ask for more quota, or try another region, zone or VM size"


def examine(account: Account, storage: Storage) -> list[Finding]:
    """Returns findings about everything that keeps jobs from running."""
    findings: list[Finding] = []
    for container in (OUTPUTS, CODE):
        try:
            next(iter(storage.blobs(container, "nothing-is-called-so")), None)
        except UserError as error:
            findings += error.findings
    return [*findings, *_of_account(account)]


def _of_account(account: Account) -> Iterator[Finding]:
    try:
        pool = account.pool_facts()
    except ServiceError as error:
        if not error.is_missing:
            yield from error.findings
            return
        message = f"the account has no pool `{account.pool}`"
        yield Finding("no-pool", message, "deploy its environment: fairway deploy")
        return
    for text in resize_errors(pool):
        yield Finding("resize-error", f"the pool cannot grow: {text}", _QUOTA)
    if not pool.get("enableInterNodeCommunication"):
        message = "inter-node communication is off: each job has one node"
        hint = "for jobs of several nodes: `mpi: true` in the environment, and deploy again"
        yield Finding("no-mpi", message, hint, severity=Severity.WARNING)
    elif account.calls.is_here and sshd_mesh.program() is None:
        message = (
            "jobs of several nodes need sshd, and this machine, whose nodes these are, has none"
        )
        hint = "sudo apt-get install --no-install-recommends openssh-server"
        yield Finding("no-sshd", message, hint, severity=Severity.WARNING)
    for node in account.nodes():
        if fault := node_fault(account, node):
            name, target = str(node["id"]), account.target.name
            anew = f"fairway nodes reimage {target} {name}"
            hint = f"fairway nodes resume {target} {name}" if fault == _DRAINED else anew
            yield Finding("unfit-node", f"{name}: {fault}", hint)


def require_pool(account: Account, job: Job) -> None:
    """Raises UserError for a job that the pool can never run, and Batch would keep for ever."""
    if findings := [*_of_target(account.target, job)]:
        raise UserError(findings)
    try:
        pool = account.pool_facts()
    except ServiceError as error:
        if not error.is_missing:
            raise
        message = f"the account has no pool `{account.pool}`"
        hint = "deploy the environment, or read its targets again: fairway targets sync"
        raise UserError.of("no-pool", message, hint) from None
    findings = [*_of_pool(pool, job, account.target), *_of_limits(pool, job, account.target)]
    findings = findings or [*_of_nodes(account, pool, job)]
    if findings:
        raise UserError(findings)


def _of_target(target: Target, job: Job) -> Iterator[Finding]:
    assert target.batch is not None, "a target of this engine has its section"
    containers = target.storage.containers if target.storage else ()
    for name in (OUTPUTS, CODE):
        if name not in containers:
            message = f"the target `{target.name}` has no storage container `{name}`"
            yield Finding("no-container", message, "add it under the environment's `storage:`")
    if not target.batch.identity:
        message = f"the target `{target.name}` has no `identity`: its nodes cannot read storage"
        yield Finding("no-identity", message, "set it to the resource id of the pool's identity")
    if job.nodes > target.nodes.max:
        message = (
            f"the job needs {job.nodes} nodes, and `{target.name}` has at most {target.nodes.max}"
        )
        yield Finding("too-many-nodes", message, f"-s nodes={target.nodes.max}, or a larger pool")
    if job.nodes > 1 and not target.batch.mpi:
        message = f"a job on `{target.name}` takes one node: its pool is not for MPI"
        hint = "-s nodes=1, another target, or `mpi: true` for the cluster in the environment"
        yield Finding("no-mpi", message, hint)


def _of_pool(pool: Facts, job: Job, target: Target) -> Iterator[Finding]:
    name, slots = str(pool["id"]), int(pool.get("taskSlotsPerNode") or 1)
    if state_of(pool) != "active":
        message = f"the pool `{name}` accepts no jobs: it is {state_of(pool)}"
        hint = f"see when it is active: az batch pool show --pool-id {name} --query state"
        yield Finding("pool-disabled", message, hint)
    if job.nodes > 1 and not pool.get("enableInterNodeCommunication"):
        message = f"the pool `{name}` has inter-node communication turned off"
        hint = "it is set when a pool is created: `mpi: true` in the environment, and deploy again"
        yield Finding("no-mpi", message, hint)
    if job.nodes > 1 and slots > 1:
        message = f"the pool `{name}` has {slots} slots per node"
        hint = "tasks on several nodes need one slot per node: create another pool"
        yield Finding("too-many-slots", message, hint)
    if (known := target.batch and target.batch.task_slots) and known != slots:
        message = f"a node of the pool `{name}` has {slots} task slots, but the target says {known}"
        yield Finding("other-slots", message, "read its targets again: fairway targets sync")
    machine = pool.get("virtualMachineConfiguration") or {}
    runs_containers = bool(machine.get("containerConfiguration"))
    if job.container is not None and not runs_containers:
        message = f"the pool `{name}` runs no containers"
        hint = "-s container=null; or `containers: true` in the environment, and deploy again"
        yield Finding("no-containers", message, hint)
    if job.container is None and runs_containers:
        message = f"every job on the pool `{name}` runs in a container, and this one names no image"
        yield Finding("no-container-image", message, "-s container.image=IMAGE, or another target")
    yield from _of_size(pool, job, target)


def _of_limits(pool: Facts, job: Job, target: Target) -> Iterator[Finding]:
    """Finds a job with limits without a shared folder, where tasks keep what others read."""
    if target.mounts or pool.get("mountConfiguration"):
        return
    nothing = f"`{target.name}` mounts no file system that its nodes share"
    mount = "or add `mounts:` to its cluster in the environment, and deploy again"
    for name in ("max_duration", "max_cost"):
        if getattr(job, name) is not None:
            message = f"a run cannot be limited as a whole: {nothing}"
            hint = f"limit each attempt instead: -s {name}=null -s timeout=SPAN; {mount}"
            yield Finding("no-shared-folder", message, hint, name)
    if job.retry_limits:
        message = f"Azure Batch does not count how often a node is lost: {nothing}"
        changes = " ".join(f"-s retry.{name}=null" for name in job.retry_limits)
        hint = f"the service restarts such tasks as often as that happens: {changes}; {mount}"
        yield Finding("no-shared-folder", message, hint, "retry")
    if job.idle_gpu is not None and job.idle_gpu.then == CANCEL and job.failures_allowed:
        message = f"a task that was ended for idle GPUs would start again elsewhere: {nothing}"
        yield Finding("no-shared-folder", message, f"-s retries=0; {mount}", "idle_gpu")


def _of_size(pool: Facts, job: Job, target: Target) -> Iterator[Finding]:
    name, count = str(pool["id"]), nodes_of(pool, "target")
    if pool.get("enableAutoScale"):
        formula = str(pool.get("autoScaleFormula") or "")
        found = re.search(r"^\s*maxNodes\s*=\s*(\d+)\s*;", formula, re.MULTILINE)
        if found and (most := int(found[1])) < job.nodes:
            message = f"the autoscale formula of the pool `{name}` allows at most {most} nodes"
            yield Finding("too-many-nodes", message, f"-s nodes={most}, or raise its maximum")
    elif not {"targetDedicatedNodes", "targetLowPriorityNodes"} & pool.keys():
        return  # both are optional in the service's answer
    elif count < job.nodes:
        message = f"the pool `{name}` is fixed at {count} nodes, and the job needs {job.nodes}"
        yield Finding("too-few-nodes", message, f"fairway pool resize {target.name} {job.nodes}")
    elif nodes_of(pool, "current") < job.nodes and (errors := resize_errors(pool)):
        message = f"the pool `{name}` could not grow to {count} nodes: {errors[0]}"
        yield Finding("resize-error", message, _QUOTA)


def _of_nodes(account: Account, pool: Facts, job: Job) -> Iterator[Finding]:
    """Finds too few usable nodes for the job in a pool to which no more are coming."""
    if pool.get("enableAutoScale") or str(pool.get("allocationState")).lower() != "steady":
        return
    faults = {str(node["id"]): node_fault(account, node) for node in account.nodes()}
    unfit = [f"{name}: {fault}" for name, fault in faults.items() if fault]
    fit = len(faults) - len(unfit)
    if not faults or fit >= job.nodes:
        return
    message = f"{fit} of the pool's {len(faults)} nodes are usable; {unfit[0]}"
    hint = f"see all of them: fairway nodes list {account.target.name}"
    yield Finding("unfit-nodes", message, hint)
