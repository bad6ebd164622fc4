"""Checks of a target: for `fairway doctor`, and of a job before it is sent."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from fairway_agent.fanout import sshd_mesh
from fairway_agent.spec import CANCEL
from fairway_core.findings import Finding, Severity, UserError
from fairway_runner.engines.azure.calls import ServiceError
from fairway_runner.engines.azure.storage import CODE, OUTPUTS
from fairway_runner.engines.batch import pools

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from fairway_core.target import Target
    from fairway_runner.engines.azure.storage import Storage
    from fairway_runner.engines.batch.client import Account
    from fairway_runner.jobs.job import Job


_QUOTA = "ask for more quota, or try another region, zone or VM size"


def examine(account: Account, storage: Storage) -> list[Finding]:
    """Everything that keeps jobs from running; empty where nothing does."""
    return [*_of_storage(storage), *_of_account(account)]


def _of_storage(storage: Storage) -> Iterator[Finding]:
    for container in (OUTPUTS, CODE):
        try:
            next(iter(storage.blobs(container, "nothing-is-called-so")), None)
        except UserError as error:
            yield from error.findings


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
    for text in pools.resize_errors(pool):
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
        if fault := pools.node_fault(account, node):
            name = str(node["id"])
            hint = f"fairway nodes reimage {account.target.name} {name}"
            yield Finding("unfit-node", f"{name}: {fault}", hint)


def require_pool(account: Account, job: Job) -> None:
    """UserError with why the pool can never run the job: Batch lets such tasks wait for ever."""
    findings = [*_of_target(account.target, job)]
    if findings:
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


def _of_pool(pool: Mapping[str, Any], job: Job, target: Target) -> Iterator[Finding]:
    name = str(pool["id"])
    if str(pool["state"]).lower() != "active":
        message = f"the pool `{name}` accepts no jobs: it is {str(pool['state']).lower()}"
        hint = f"see when it is active: az batch pool show --pool-id {name} --query state"
        yield Finding("pool-disabled", message, hint)
    if job.nodes > 1 and not pool.get("enableInterNodeCommunication"):
        message = f"the pool `{name}` has inter-node communication turned off"
        hint = "it is set when a pool is created: `mpi: true` in the environment, and deploy again"
        yield Finding("no-mpi", message, hint)
    if job.nodes > 1 and int(pool.get("taskSlotsPerNode") or 1) > 1:
        message = f"the pool `{name}` has {pool['taskSlotsPerNode']} slots per node"
        hint = "tasks on several nodes need one slot per node: create another pool"
        yield Finding("too-many-slots", message, hint)
    slots, known = int(pool.get("taskSlotsPerNode") or 1), target.batch and target.batch.task_slots
    if known and known != slots:
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


def _of_limits(pool: Mapping[str, Any], job: Job, target: Target) -> Iterator[Finding]:
    """A job with limits needs a shared folder: tasks keep there what others and retries read."""
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


def _of_size(pool: Mapping[str, Any], job: Job, target: Target) -> Iterator[Finding]:
    name = str(pool["id"])
    if pool.get("enableAutoScale"):
        formula = str(pool.get("autoScaleFormula") or "")
        found = re.search(r"^\s*maxNodes\s*=\s*(\d+)\s*;", formula, re.MULTILINE)
        most = int(found[1]) if found else None
        if most is not None and most < job.nodes:
            message = f"the autoscale formula of the pool `{name}` allows at most {most} nodes"
            yield Finding("too-many-nodes", message, f"-s nodes={most}, or raise its maximum")
        return
    if not {"targetDedicatedNodes", "targetLowPriorityNodes"} & pool.keys():
        return  # both are optional in the service's answer
    if pools.wanted_nodes(pool) >= job.nodes:
        errors = pools.resize_errors(pool)
        if errors and pools.current_nodes(pool) < job.nodes:
            message = f"the pool `{name}` could not grow to {pools.wanted_nodes(pool)} nodes"
            yield Finding("resize-error", f"{message}: {errors[0]}", _QUOTA)
        return
    count = pools.wanted_nodes(pool)
    message = f"the pool `{name}` is fixed at {count} nodes, and the job needs {job.nodes}"
    yield Finding("too-few-nodes", message, f"fairway pool resize {target.name} {job.nodes}")


def _of_nodes(account: Account, pool: Mapping[str, Any], job: Job) -> Iterator[Finding]:
    """Where no more nodes are coming: whether enough of those that are there can work."""
    if pool.get("enableAutoScale") or str(pool.get("allocationState")).lower() != "steady":
        return
    nodes = list(account.nodes())
    faults = {str(node["id"]): pools.node_fault(account, node) for node in nodes}
    fit = [name for name, fault in faults.items() if not fault]
    if not nodes or len(fit) >= job.nodes:
        return
    name, fault = next((name, fault) for name, fault in faults.items() if fault)
    message = f"{len(fit)} of the pool's {len(nodes)} nodes are usable; {name}: {fault}"
    yield Finding(
        "unfit-nodes", message, f"see all of them: fairway nodes list {account.target.name}"
    )
