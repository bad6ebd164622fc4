"""`fairway doctor`: what is wrong with a target, and how to fix it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairway_agent.fanout.sshd import server
from fairway_core.findings import Finding, Severity, UserError
from fairway_runner.engines.azure.calls import ServiceError
from fairway_runner.engines.azure.storage import CODE, OUTPUTS
from fairway_runner.engines.batch import pools

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fairway_runner.engines.azure.storage import Storage
    from fairway_runner.engines.batch.client import Account


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
        hint = "ask for more quota, or try another region, zone or VM size"
        yield Finding("resize-error", f"the pool cannot grow: {text}", hint)
    if not pool.get("enableInterNodeCommunication"):
        message = "inter-node communication is off: each job has one node"
        hint = "for jobs of several nodes: `mpi: true` in the environment, and deploy again"
        yield Finding("no-mpi", message, hint, severity=Severity.WARNING)
    elif account.calls.is_here and server.program() is None:
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
