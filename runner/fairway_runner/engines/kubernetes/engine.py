"""Runs on a Kubernetes cluster, with kubectl and a volume that all of its pods mount."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from fairway_agent.job_facts import PRIORITIES
from fairway_agent.kubernetes.api import DOWN
from fairway_agent.shared.reports import (
    NodesReport,
    NodesRequest,
    RunsReport,
    RunsRequest,
    SubmitRequest,
)
from fairway_core.findings import Finding, Severity, UserError
from fairway_core.kubernetes import documents, head
from fairway_core.kubernetes.flux import NAMESPACE as FLUX
from fairway_core.kubernetes.pools import of_node, topology_of
from fairway_core.target import KubernetesAccess
from fairway_runner.engines.engine import inside_command, new_key
from fairway_runner.engines.kubernetes.exec import Exec
from fairway_runner.engines.remote.engine import ScheduledEngine
from fairway_runner.engines.remote.remote_host import RemoteHost
from fairway_runner.runs.records import read_job

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fairway_agent.shared.reports import Health, NodeReport
    from fairway_core.target import Target
    from fairway_runner.engines.remote.submission_state import SubmissionRecord
    from fairway_runner.jobs.job import Job
    from fairway_runner.runs.folder import RunFolder


@dataclass
class KubernetesEngine(ScheduledEngine[KubernetesAccess]):
    """A namespace of a cluster; `engines.engine.Engine` documents the methods."""

    pause: ClassVar[float] = 1.0
    NODE: ClassVar[str] = "fairway_agent.kubernetes"
    ROLE: ClassVar[str] = "head pod"
    COLUMNS: ClassVar = ("cores", "gpus")
    HINTS: ClassVar = {
        "act_on_node": "that is for the cluster's administrators; drain it first",
        "resize": "with AKS: az aks nodepool scale, where its autoscaler is off",
    }
    REFUSALS: ClassVar = frozenset({"refused-job", "failed-predecessor", "taken-run-id"})
    DOWN: ClassVar = DOWN

    @property
    def connection(self) -> Exec:
        """The head pod, which answers for the cluster."""
        return Exec(self.target.name, self.access)

    @property
    def remote_host(self) -> RemoteHost:
        """The head pod, and the shared folder."""
        return RemoteHost(self.connection, self.access.shared, self.deadline)

    def place_of(self, target: Target) -> tuple[str, ...]:
        """Returns kubeconfig, kubectl's context, namespace and folder."""
        access = target.kubernetes
        assert access is not None, "a target with this engine has the section"
        return access.kubeconfig, access.context, access.namespace, access.shared

    def require(self, job: Job, needs: Sequence[str]) -> None:
        """Raises UserError for impossible jobs; tasks look programs up when they start."""
        self.require_nodes(job)
        known = self.access.priorities
        if job.priority_number not in {PRIORITIES[word] for word in (*known, "normal")}:
            message = f"`{self.target.name}` has no priority for `priority: {job.priority}`"
            has = f"it has {', '.join(known)}; " if known else ""
            hint = f"{has}leave it out (-s priority=normal), or write one of Kueue's classes into "
            hint += "the target: `kubernetes: {queue: QUEUE, priorities: {high: NAME}}`"
            raise UserError.of("no-priority", message, hint)
        of_node(self.target)
        if job.container is not None and job.container.options:
            text = " ".join(job.container.options)
            message = f"`{self.target.name}` does not support options of Docker: {text}"
            hint = "leave `container.options` out: its pods are run by Kubernetes"
            raise UserError.of("not-supported", message, hint)

    def request(self, run: RunFolder, submission: SubmissionRecord, code: str) -> SubmitRequest:
        """Returns the request with the resources of a node, the private key of a job on several
        nodes, and NCCL's topology of the nodes."""
        job = read_job(run.folder)
        key = new_key(run.id)[0].decode("ascii") if job.nodes > 1 else ""
        topology = topology_of(self.target)
        return SubmitRequest(
            run.id,
            submission.submission,
            code,
            resources=of_node(self.target),
            key=key,
            topology=topology.path if topology else "",
        )

    def marks(self, last: SubmissionRecord) -> tuple[str, ...]:
        """Returns the claims of its pods' volumes, which their Jobs name."""
        return self.claims

    @property
    def claims(self) -> tuple[str, ...]:
        """Claims of its volumes."""
        return tuple(sorted(set(self.access.volumes.values())))

    def remove(self, run: RunFolder) -> None:
        """Removes its objects, and its folder."""
        self.end_gone(run)
        self.ask("runs.remove", RunsRequest(remove=run.id, created=run.record.created), RunsReport)

    def no_capacity(self, job: Job) -> str:
        """Returns a message if the queue admits nothing; "" if it admits jobs."""
        health = self.look(health=True, queue=self.access.queue or "").health
        fault = "" if health is None else health.queue
        return f"its queue admits nothing: {fault}" if fault else ""

    def shell(self, node: str | None, command: Sequence[str] = (), *, forward: str = "") -> int:
        """Opens a shell in the head pod, in a run's pod on a node, or in the pod of that name."""
        if node is None:
            return self.connection.interactive(command, forward=forward)
        nodes = {each.name: each.pod for each in self.look().nodes}
        pod = nodes.get(node, node)
        if not pod:
            message = f"no pod of a run is on {node}, and a shell needs one"
            raise UserError.of("no-pod", message, f"by an administrator: kubectl debug node/{node}")
        return self.connection.enter(pod, command, forward=forward)

    def main_host(self, run: RunFolder) -> str:
        """Returns the name of the first pod of the first task that has one."""
        names = (run.task_status(index).job for index in range(run.record.tasks))
        return next(filter(None, names), None) or super().main_host(run)

    def enter(self, run: RunFolder, task: int, node: int, command: Sequence[str]) -> int:
        """Enters the pod of the task on that one of its nodes."""
        status = run.task_status(task)
        found = self.ask("nodes.nodes", NodesRequest(run=run.id), NodesReport).pods
        mine = next((each for each in found if each.name == status.job), None)
        count = len((status.node or "").split(","))
        if mine is None or node >= count:
            raise self.no_node_yet(run, task)
        pod = mine.name
        if node:
            same = [each for each in found if each.part == mine.part]
            pod = next((each.name for each in same if each.index == node), pod)
        return self.connection.enter(pod, inside_command(run.id, run.task_name(task), command))

    def health_request(self) -> dict[str, Any]:
        """Returns the questions with claims, queue and rights."""
        rights, queue = head.rights(self.target), self.access.queue or ""
        return {"health": True, "claims": self.claims, "queue": queue, "rights": rights}

    def faults(self, nodes: Sequence[NodeReport], health: Health) -> Iterator[Finding]:
        """Yields faults of claims, rights of the head pod's account, the queue and the nodes."""
        access, target = self.access, self.target
        for name, fault in health.claims.items():
            if fault:
                message = f"the claim {name} cannot be used: {fault}"
                hint = f"see: kubectl -n {access.namespace} describe pvc {name}"
                yield Finding("unfit-claim", message, hint)
        # Rights that the head pod's account lacks, because an older release or a person created it.
        if lacks := [right for right in head.rights(target) if right in health.lacks]:
            message = f"the account of the head pod may not {', '.join(lacks)}"
            hint = f"fairway targets prepare {target.name} --apply, by someone who may create roles"
            if target.environment:
                hint = f"its environment assigns them: fairway deploy {target.environment}"
            yield Finding("no-rights", message, hint)
        if health.queue:
            message = f"nothing starts from the queue {access.queue or ''}: {health.queue}"
            hint = f"see: kubectl -n {access.namespace} get localqueues; or leave `queue:` out"
            yield Finding("unfit-queue", message, hint)
        if not nodes and target.nodes.min:
            labels = ",".join(f"{key}={value}" for key, value in access.selector.items())
            message = f"no node has the labels {labels}" if labels else "the cluster has no nodes"
            yield Finding("no-nodes", message, "see: kubectl get nodes --show-labels")
        adapters = of_node(target).get(access.rdma, "") if access.rdma else ""
        for node in nodes:
            if node.state != "ready" or node.reason:
                why = f": {node.reason}" if node.reason else ""
                message = f"the node {node.name} is {node.state}{why}"
                hint = f"see: kubectl describe node {node.name}"
                yield Finding("unfit-node", message, hint, severity=Severity.WARNING)
            elif adapters and node.adapters != adapters:
                have = node.adapters or "none"
                message = f"the node {node.name} offers {have} of {adapters} {access.rdma}"
                hint = "is the network operator ready there? see: kubectl describe node"
                yield Finding("unfit-node", message, hint, severity=Severity.WARNING)

    def manifests(self) -> str:
        """Returns the objects of its head pod, and NCCL's topology, as a document for kubectl."""
        return documents.text([*head.objects(self.target), *head.topologies([self.target])])

    def prepare(self) -> str:
        """Creates them with kubectl, as the signed-in user; returns its output. Raises UserError if
        an environment does, whose head pod has the volumes of all of its targets."""
        if self.target.environment:
            message = f"`{self.target.name}` belongs to an environment, in whose cluster Flux "
            message += "creates this"
            hint = f"has it done so? see: kubectl get kustomizations --namespace {FLUX}"
            raise UserError.of("not-supported", message, hint)
        made = self.manifests().encode()
        ended = self.connection.ask("apply", "-f", "-", deadline=self.deadline, data=made)
        if ended.code:
            hint = f"an administrator may do it: fairway targets prepare {self.target.name} --print"
            said = " ".join(ended.err.split())[:300]
            raise UserError.of("refused-action", f"Kubernetes refuses it: {said}", hint)
        return ended.out.decode(errors="replace")

    def nodes_request(self, **asked: Any) -> NodesRequest:
        """Returns the request for the nodes with the target's labels."""
        return NodesRequest(selector=self.access.selector, rdma=self.access.rdma, **asked)


ENGINE = KubernetesEngine
