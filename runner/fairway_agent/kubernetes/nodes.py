"""The nodes of a target and their state, actions on one, and the pods of a run there."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING
from urllib.parse import quote

from fairway_agent.kubernetes.api import (
    BOOT,
    CONTROLLER,
    CORDONED,
    FORBIDDEN,
    MACHINE,
    PART,
    RUN,
    Api,
    RequestRefused,
)
from fairway_agent.kubernetes.objects import conditions_of, index_of, owns, selector
from fairway_agent.shared import runs
from fairway_agent.shared.reports import Health, NodeReport, NodesReport, NodesRequest, PodReport
from fairway_boot.files import AgentError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from fairway_agent.kubernetes.objects import Object

_READY = "Ready"
_REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
_RIGHTS = "the head pod's account may not: fairway targets prepare TARGET --print"


def nodes(shared: Path, request: NodesRequest, _: object) -> NodesReport:
    """Returns the nodes of a target, each with the runs there, after draining or resuming one if
    that is requested; or the pods of a run's tasks, for a user who wants to enter one."""
    api = Api()
    if request.run:
        return NodesReport(pods=tuple(_pods(api, shared / "runs" / request.run)))
    if request.action:
        _act(api, request.action, request.node)
    labels = ",".join(f"{key}={value}" for key, value in request.selector.items())
    query = {"labelSelector": labels} if labels else {}
    try:
        listed = api.list("nodes", query)
    except RequestRefused as refused:
        if refused.status != FORBIDDEN:
            raise
        raise AgentError("no-access", f"the nodes cannot be listed: {refused}", _RIGHTS) from None
    pods: dict[str, list[Object]] = defaultdict(list)
    query = {"labelSelector": RUN, "fieldSelector": "status.phase=Running"}
    for pod in api.list("pods", query):
        pods[pod["spec"].get("nodeName", "")].append(pod["metadata"])
    by_name = {str(node["metadata"]["name"]): node for node in listed}
    found = tuple(_report(by_name[name], request.rdma, pods[name]) for name in sorted(by_name))
    return NodesReport(found, _health(api, shared, request) if request.health else None)


def _pods(api: Api, folder: Path) -> Iterator[PodReport]:
    query = {**selector(folder.name), "fieldSelector": "status.phase=Running"}
    for pod in api.list("pods", query):
        facts = pod["metadata"]
        if owns(folder, pod) and index_of(pod) >= 0 and "deletionTimestamp" not in facts:
            yield PodReport(facts["name"], facts["labels"].get(PART, ""), index_of(pod))


def _report(node: Object, rdma: str, pods: Sequence[Object]) -> NodeReport:
    """Returns a node's report, with the runs there and the name of one of their tasks' pods; `pods`
    has the metadata of those that run."""
    status = node.get("status") or {}
    conditions = {each["type"]: each for each in conditions_of(node)}
    has_trouble = [
        each for kind, each in conditions.items() if (kind == _READY) != (each["status"] == "True")
    ]
    is_ready = conditions.get(_READY, {}).get("status") == "True"
    words = ["ready" if is_ready else "not ready"]
    if (node.get("spec") or {}).get("unschedulable"):
        words.append("drained")
    addresses = {each["type"]: each["address"] for each in status.get("addresses") or ()}
    has = status.get("allocatable") or {}
    tasks = [each["name"] for each in pods if each["labels"].get(PART) != CONTROLLER]
    return NodeReport(
        name=node["metadata"]["name"],
        state=", ".join(words),
        address=addresses.get("InternalIP", ""),
        reason="; ".join(each.get("message") or each["type"] for each in has_trouble),
        cores=str(has.get("cpu", "")),
        gpus=str(has.get("nvidia.com/gpu", "")),
        adapters=str(has.get(rdma, "")),
        machine=_machine(node),
        run=", ".join(sorted({each["labels"][RUN] for each in pods})),
        pod=tasks[-1] if tasks else "",
    )


def _machine(node: Object) -> str:
    """Returns a node's VM from the cloud's own field, which nobody can change; "" without one. The
    health check's annotation could be forged: if it names another VM, it is ignored."""
    provider, _, resource = ((node.get("spec") or {}).get("providerID") or "").partition("://")
    if provider != "azure":
        return ""
    noted = (node["metadata"].get("annotations") or {}).get(MACHINE, "")
    facts = dict(each.partition("=")[::2] for each in noted.split(","))  # parsed as its reader does
    is_own = facts.get("resource", "").lower() == resource.lower()
    return noted if is_own else f"resource={resource}"


def _act(api: Api, action: str, node: str) -> None:
    """Drains or resumes a node. Raises AgentError if the API server refuses that."""
    change: Object = {"spec": {"unschedulable": action == "drain"}}
    if action == "drain":
        # From now on a person has cordoned it, even if the health check did so before.
        change["metadata"] = {"annotations": {CORDONED: None, BOOT: None}}
    try:
        api.call("PATCH", f"/api/v1/nodes/{quote(node)}", change)
    except RequestRefused as refused:
        text = f"Kubernetes does not {action} {node}: {refused}"
        raise AgentError("refused-action", text, _RIGHTS) from None


def _health(api: Api, shared: Path, request: NodesRequest) -> Health:
    """Returns the health of the shared folder, of the claims of the target's volumes and of its
    queue, and the rights that the head's account lacks."""
    lacks = []
    for right, everywhere in request.rights.items():
        verb, _, name = right.partition(" ")
        resource, _, group = name.partition(".")
        asked = {"verb": verb, "resource": resource, "group": group}
        if not everywhere:
            asked["namespace"] = api.namespace
        body = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": asked},
        }
        if not (api.call("POST", _REVIEWS, body).get("status") or {}).get("allowed"):
            lacks.append(right)
    claims = {name: _claim(api, name) for name in request.claims}
    queue = _queue(api, request.queue) if request.queue else ""
    return runs.health(shared, claims=claims, queue=queue, lacks=tuple(lacks))


def _claim(api: Api, name: str) -> str:
    """Returns the problem with a claim; "" if there is none."""
    found = api.get("persistentvolumeclaims", name)
    if found is None:
        return "there is none of that name"
    phase = (found.get("status") or {}).get("phase", "")
    modes = (found.get("spec") or {}).get("accessModes") or ()
    if phase != "Bound":
        return f"it is {phase or 'not bound'}"
    if "ReadWriteMany" not in modes:
        return f"it is {', '.join(modes)}, and all nodes write to it: ReadWriteMany"
    return ""


def _queue(api: Api, name: str) -> str:
    """Returns the problem with a Kueue queue; "" if there is none."""
    if not api.kueue:
        return "the cluster has no Kueue"
    found = api.get("localqueues", name)
    if found is None:
        return "there is none of that name"
    for each in conditions_of(found):
        if each["type"] == "Active" and each["status"] != "True":
            return each.get("message") or "it is not active"
    return ""
