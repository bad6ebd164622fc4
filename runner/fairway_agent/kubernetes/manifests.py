"""Manifests of a run's objects, as pure functions of the run's facts.

Field by field: https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/job-v1/
"""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from fairway_agent import limits
from fairway_agent.kubernetes.api import CONTROLLER, PART, RUN, SUBMISSION, job_name, run_label
from fairway_agent.kubernetes.settings import (
    MOST_WAITS,
    node_fraction_of,
    on_one_node,
    parse,
    resources_of,
)
from fairway_agent.state_files import TERMINATED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fairway_agent.control import Part
    from fairway_agent.kubernetes.settings import Settings
    from fairway_agent.resources import ResourceRequest
    from fairway_agent.spec import RunPlan

Manifest = dict[str, Any]

CONTAINER = "task"
QUEUE = "kueue.x-k8s.io/queue-name"
"""Label of a Job that waits in a queue."""
PRIORITY = "kueue.x-k8s.io/priority-class"
"""The label of a Job that has a priority class in its queue."""
SHARES = "fairway.dev/shares-node"
"""Label of a pod that has a part of its node."""
_HOST = "kubernetes.io/hostname"
SCRATCH = "/var/tmp"  # noqa: S108 - in a pod, a volume of its own
_SHM = "/dev/shm"  # noqa: S108
POD_UID = "_FAIRWAY_POD_UID"
"""Variable with a pod's own UID."""
OWN_SCRATCH = f"$({POD_UID})"
"""The pod's own folder below its node's scratch folder."""
_TOPOLOGY = "fairway-topology"
_SCRATCH = "fairway-scratch"
_MI = 1 << 20
# On the nodes that Fairway and AKS make; a target names any others itself.
TAINTS = ("nvidia.com/gpu", "sku", "fairway.dev/pool", "kubernetes.azure.com/scalesetpriority")
"""Keys of the taints that every task's pod tolerates."""

# Seconds: for a pod beyond its job's grace, to write the task's end; at most for the preparation of
# its nodes; and the kubelet's maximum.
_LAST_WORDS = 30
_PREPARATION = 3600
_LONGEST = 2**31 - 1

_RESTARTS = 20  # of a failing controller
_CONTROLLER = {"cpu": "50m", "memory": "96Mi"}

# A pod that was evicted, preempted or lost its node is replaced, which counts as no failure. One
# that ends otherwise, for example because its node shuts down, lacks this condition: it exits with
# its own code (see `pod.exit_code`). Everything else counts, and no failure is allowed: a task's
# own attempts are all in one pod. No rule can state that, because the controller applies FailJob
# also to the pods of a suspended Job, which it does not count. Source: Kubernetes,
# pkg/controller/job, getFailJobMessage and deleteJobPods.
_DISRUPTED = {
    "action": "Ignore",
    "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}],
}
_ENDED = {
    "action": "Ignore",
    "onExitCodes": {"operator": "In", "values": [TERMINATED], "containerName": CONTAINER},
}


def part_job(
    run: str, submission: int, part: Part, plan: RunPlan, settings: Settings, command: Sequence[str]
) -> Manifest:
    """Returns the Job of a part: a pod for each task, or for each node of its only task, led by the
    first."""
    is_gang = part.nodes > 1
    count = part.nodes if is_gang else len(part.indices)
    # A queue admits a Job's pods all at once, so no more of them than the nodes have room for.
    room = settings.most * on_one_node(settings.resources, part.wanted)
    most = (plan.max_parallel, room if settings.queue else None)
    width = count if is_gang else min([count, *filter(None, most)])
    spec: Manifest = {
        "completionMode": "Indexed",
        "completions": count,
        "parallelism": width,
        "podReplacementPolicy": "Failed",
        "podFailurePolicy": {"rules": [_DISRUPTED, _ENDED]},
        "template": _template(run, submission, part, plan, settings, command),
    }
    if is_gang:
        spec["backoffLimit"] = 0
        spec["successPolicy"] = {"rules": [{"succeededIndexes": "0"}]}
    else:
        spec["backoffLimitPerIndex"] = 0
    labels = _labels(run, submission, part.number)
    if settings.queue:
        labels[QUEUE] = settings.queue
        if settings.priority:
            labels[PRIORITY] = settings.priority
        spec["suspend"] = True  # until Kueue admits all pods
    return _job(job_name(run, submission, part.number), labels, spec)


def controller_job(
    run: str, submission: int, settings: Settings, command: Sequence[str]
) -> Manifest:
    """Returns the Job of a run's controller: one small pod."""
    labels = _labels(run, submission, CONTROLLER)
    container = {
        **_container(settings, command),
        "image": settings.head_image,
        "resources": {"requests": dict(_CONTROLLER), "limits": {"memory": "512Mi"}},
    }
    pod: Manifest = {
        "restartPolicy": "Never",
        "serviceAccountName": settings.head,
        "enableServiceLinks": False,
        "containers": [container],
        "volumes": _volumes(settings),
    }
    if settings.head_tolerations:
        pod["tolerations"] = _tolerating(settings.head_tolerations)
    spec = {
        "backoffLimit": _RESTARTS,
        "podFailurePolicy": {"rules": [_DISRUPTED, _ENDED]},
        "template": {"metadata": {"labels": dict(labels)}, "spec": pod},
    }
    return _job(job_name(run, submission, CONTROLLER), labels, spec)


def _job(name: str, labels: dict[str, str], spec: Manifest) -> Manifest:
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "labels": labels},
        "spec": spec,
    }


def _labels(run: str, submission: int, part: int | str) -> dict[str, str]:
    return {RUN: run_label(run), SUBMISSION: str(submission), PART: str(part)}


def _template(
    run: str, submission: int, part: Part, plan: RunPlan, settings: Settings, command: Sequence[str]
) -> Manifest:
    memory: Manifest = {"medium": "Memory"}
    if settings.shm_size:
        memory["sizeLimit"] = settings.shm_size
    scratch, scratch_mount = _scratch(settings, part.wanted)
    volumes = [*_volumes(settings), {"name": "shm", "emptyDir": memory}, scratch]
    container = _container(settings, command)
    container["volumeMounts"] += [{"name": "shm", "mountPath": _SHM}, scratch_mount]
    if settings.topology:
        # Optional, for clusters that were prepared before it existed: a task then starts without it
        # and logs that, as for each topology file that is unreadable.
        source = {"name": topology_map(settings.topology), "optional": True}
        volumes.append({"name": _TOPOLOGY, "configMap": source})
        folder = str(PurePosixPath(settings.topology).parent)
        mount = {"name": _TOPOLOGY, "mountPath": folder, "readOnly": True}
        container["volumeMounts"].append(mount)
    # InfiniBand reads and writes locked memory directly.
    container["securityContext"] = {"capabilities": {"add": ["IPC_LOCK"]}}
    if settings.resources:
        resources = resources_of(settings.resources, part.wanted)
        container["resources"] = {"requests": resources, "limits": dict(resources)}
    spec: Manifest = {
        "restartPolicy": "Never",
        "serviceAccountName": settings.service_account,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": min(math.ceil(plan.grace) + _LAST_WORDS, _LONGEST),
        "tolerations": _tolerating((*TAINTS, *settings.tolerations)),
        "containers": [container],
        "volumes": volumes,
    }
    if settings.selector:
        spec["nodeSelector"] = dict(settings.selector)
    preparation = _PREPARATION + (MOST_WAITS * (settings.patience or 0) if part.nodes > 1 else 0)
    if (longest := limits.scheduler_limit(plan, preparation)) is not None:  # for a task that hangs
        spec["activeDeadlineSeconds"] = min(math.ceil(longest + 10 * _LAST_WORDS), _LONGEST)
    labels = {**_labels(run, submission, part.number), "azure.workload.identity/use": "true"}
    if part.wanted is not None:
        labels[SHARES] = "true"
        cpus = {"resourceFieldRef": {"resource": "limits.cpu"}}
        container["env"].append({"name": "_FAIRWAY_CPUS", "valueFrom": cpus})
        if not part.wanted.gpus:
            # An image may request all GPUs from NVIDIA's runtime.
            container["env"].append({"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"})
        # Preferably on a node that pods of its kind already use.
        same = {"labelSelector": {"matchLabels": {SHARES: "true"}}, "topologyKey": _HOST}
        kind = "preferredDuringSchedulingIgnoredDuringExecution"
        term = {"weight": 100, "podAffinityTerm": same}
        spec["affinity"] = {"podAffinity": {kind: [term]}}
    return {
        "metadata": {
            "labels": labels,
            "annotations": {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"},
        },
        "spec": spec,
    }


def _tolerating(keys: Sequence[str]) -> list[Manifest]:
    return [{"key": key, "operator": "Exists"} for key in keys]


def _scratch(settings: Settings, wanted: ResourceRequest | None) -> tuple[Manifest, Manifest]:
    """Returns the volume of a task's scratch, and its mount. In a folder of the node, if it is set
    up, each pod has one of its own, which is removed when no process holds it: see `pod`."""
    mount = {"name": _SCRATCH, "mountPath": SCRATCH}
    if settings.scratch.startswith("/"):
        folder = {"path": settings.scratch, "type": "Directory"}
        return {"name": _SCRATCH, "hostPath": folder}, {**mount, "subPathExpr": OWN_SCRATCH}
    most = {}
    if settings.scratch:
        fraction = node_fraction_of(settings.resources, wanted) or 1
        most["sizeLimit"] = f"{int(parse(settings.scratch) * Fraction(fraction) / _MI)}Mi"
    return {"name": _SCRATCH, "emptyDir": most}, mount


def topology_map(path: str) -> str:
    """Returns the name of the ConfigMap with NCCL's topology file of that path, under the file's
    own name.

    >>> topology_map("/opt/microsoft/ndv5/topo.xml")
    'fairway-topology-ndv5'
    """
    return f"{_TOPOLOGY}-{PurePosixPath(path).parent.name}"


def _container(settings: Settings, command: Sequence[str]) -> Manifest:
    return {
        "name": CONTAINER,
        "image": settings.image,
        "command": list(command),
        "env": [
            _field("FAIRWAY_NODE_ADDRESS", "status.podIP"),
            _field("_FAIRWAY_POD", "metadata.name"),
            _field(POD_UID, "metadata.uid"),
            _field("_FAIRWAY_NODE", "spec.nodeName"),
        ],
        "volumeMounts": [
            {"name": name, "mountPath": path} for name, path in settings.paths.items()
        ],
    }


def _field(name: str, path: str) -> Manifest:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}


def _volumes(settings: Settings) -> list[Manifest]:
    return [
        {"name": name, "persistentVolumeClaim": {"claimName": claim}}
        for name, claim in settings.volumes.items()
    ]
