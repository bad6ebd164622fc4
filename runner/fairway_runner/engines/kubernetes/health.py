"""What can be wrong with a Kubernetes cluster, told from one look by its head pod."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairway_core.findings import Finding, Severity
from fairway_core.kubernetes import head
from fairway_core.kubernetes.resources import of_node
from fairway_runner.engines.remote.health import of_clock, of_shared_folder

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from fairway_agent.kubernetes.reports import NodeReport, NodesReport
    from fairway_core.target import Target


def findings_of(found: NodesReport, target: Target, began: float, ended: float) -> list[Finding]:
    """The faults, from what the head pod said between two moments of this machine's clock."""
    access = target.kubernetes
    assert access is not None, "a target with this engine has the section"
    health = found.health
    assert health is not None, "it was asked for"
    return [
        *of_shared_folder(health.fault, health.free, access.shared, "the head pod"),
        *of_clock(health.time, "head pod", began, ended),
        *_of_claims(health.claims, access.namespace),
        *_of_rights(health.lacks, target),
        *_of_queue(health.queue, access.queue or "", access.namespace),
        *_of_nodes(found.nodes, target),
    ]


def _of_claims(claims: Mapping[str, str], namespace: str) -> Iterator[Finding]:
    for name, fault in claims.items():
        if fault:
            message = f"the claim {name} cannot be used: {fault}"
            hint = f"see: kubectl -n {namespace} describe pvc {name}"
            yield Finding("unfit-claim", message, hint)


def _of_rights(lacks: Sequence[str], target: Target) -> Iterator[Finding]:
    """Those that an earlier release, or somebody who made them by hand, has not given."""
    found = [right for right in head.rights(target) if right in lacks]
    if found:
        message = f"the account of the head pod may not {', '.join(found)}"
        hint = f"fairway targets prepare {target.name} --apply, by someone who may create roles"
        if target.environment:
            hint = f"its environment assigns them: fairway deploy {target.environment}"
        yield Finding("no-rights", message, hint)


def _of_queue(fault: str, queue: str, namespace: str) -> Iterator[Finding]:
    if fault:
        message = f"nothing starts from the queue {queue}: {fault}"
        hint = f"see: kubectl -n {namespace} get localqueues; or leave `queue:` out"
        yield Finding("unfit-queue", message, hint)


def _of_nodes(nodes: Sequence[NodeReport], target: Target) -> Iterator[Finding]:
    access = target.kubernetes
    assert access is not None, "a target with this engine has the section"
    if not nodes and target.nodes.min:
        labels = ",".join(f"{key}={value}" for key, value in access.selector.items())
        message = f"no node has the labels {labels}" if labels else "the cluster has no nodes"
        yield Finding("no-nodes", message, "see: kubectl get nodes --show-labels")
    adapters = of_node(target).get(access.rdma, "") if access.rdma else ""
    for node in nodes:
        if node.state != "ready":
            why = f": {node.reason}" if node.reason else ""
            message = f"the node {node.name} is {node.state}{why}"
            hint = f"see: kubectl describe node {node.name}"
            yield Finding("unfit-node", message, hint, severity=Severity.WARNING)
        elif adapters and node.adapters != adapters:
            have = node.adapters or "none"
            message = f"the node {node.name} offers {have} of {adapters} {access.rdma}"
            hint = "is the network operator ready there? see: kubectl describe node"
            yield Finding("unfit-node", message, hint, severity=Severity.WARNING)
