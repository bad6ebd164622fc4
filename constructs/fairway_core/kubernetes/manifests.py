"""All that Flux applies in an environment's Kubernetes cluster, as the text of its files.

Each folder is applied by itself, so that a driver that fails holds up no queue: see `flux`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fairway_core.kubernetes import (
    admission,
    documents,
    drivers,
    head,
    health,
    node_setup,
    pools,
    queues,
)
from fairway_core.kubernetes.documents import Manifest, manifest
from fairway_core.kubernetes.drivers import Versions

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fairway_core.kubernetes.pools import Volume
    from fairway_core.target import KubernetesAccess, Target


@dataclass(frozen=True)
class Content:
    """What an environment says of it: `quota` is what the namespace of jobs may have at most,
    `wait_for_pods` are seconds, or None for no limit, with `atomic_scale_up` a pool is asked for
    all nodes of a Job at once, and `kueue` and `drivers` are versions of what is installed."""

    quota: Mapping[str, str] = field(default_factory=dict)
    wait_for_pods: float | None = None
    atomic_scale_up: bool = True
    kueue: str = "0.19.2"
    drivers: Versions = field(default_factory=Versions)


def manifests(
    targets: Sequence[Target], shared: Sequence[Volume], content: Content, *, client_id: str = ""
) -> dict[str, str]:
    """Files by their paths, for pools that are `targets` and the file systems that they mount.

    `client_id` is of the identity that tasks' pods have in Azure; it may be a reference of
    Terraform's, as may be what volumes come from.
    """
    queued = [each for each in targets if _access(each).queue]
    types = {volume.type for volume in shared}
    files = {
        "jobs/namespace.yaml": [
            *namespace(_access(targets[0]).namespace, content.quota),
            *admission.policy(targets),
            *admission.policy_of_head(_access(targets[0])),
        ],
        "jobs/volumes.yaml": pools.objects(shared, _access(targets[0]).namespace),
        "jobs/head.yaml": head.objects(_of_all(targets), client_id=client_id),
        "jobs/topologies.yaml": head.topologies(targets),
        "drivers/drivers.yaml": drivers.installation(targets, types, content.drivers),
        "devices/devices.yaml": drivers.devices(targets, content.drivers),
        "health/health.yaml": health.objects(targets),
        "nodes/node-setup.yaml": node_setup.objects(targets),
    }
    if queued:
        files["kueue/kueue.yaml"] = queues.installation(content.kueue, content.wait_for_pods)
        files["queues/queues.yaml"] = queues.objects(queued, atomic=content.atomic_scale_up)
    return {path: documents.text(objects) for path, objects in files.items() if objects}


def namespace(name: str, quota: Mapping[str, str]) -> list[Manifest]:
    """The namespace of jobs, and what it may have at most."""
    found = manifest("v1", "Namespace", name)
    # A task's pod locks memory for InfiniBand, which the baseline of Pod Security leaves out: a
    # policy says which pods there may be, see `admission`.
    found["metadata"]["labels"] = {"pod-security.kubernetes.io/enforce": "privileged"}
    # Nothing of a job's gets a public address or a port of every node.
    closed = {"services.loadbalancers": "0", "services.nodeports": "0"}
    spec = {"hard": {**closed, **quota}}
    return [found, {**manifest("v1", "ResourceQuota", "fairway", name), "spec": spec}]


def _access(target: Target) -> KubernetesAccess:
    assert target.kubernetes is not None, "a target with this engine has the section"
    return target.kubernetes


def _of_all(targets: Sequence[Target]) -> Target:
    """One with the volumes of all, for the head pod that they share."""
    claims: dict[str, str] = {}
    mounts: dict[str, str] = {}
    for target in targets:
        claims |= _access(target).volumes
        mounts |= target.mounts
    access = _access(targets[0]).model_copy(update={"volumes": claims})
    return targets[0].model_copy(update={"kubernetes": access, "mounts": mounts})
