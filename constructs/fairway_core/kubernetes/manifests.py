"""All that Flux applies in an environment's Kubernetes cluster, as the text of its files.

Each folder is applied separately, so that a failing driver blocks no queue: see `flux`.
"""

from __future__ import annotations

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
from fairway_core.kubernetes.documents import Manifest, manifest, privileged_namespace
from fairway_core.kubernetes.pools import access_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fairway_core.environment import Kubernetes
    from fairway_core.kubernetes.pools import Volume
    from fairway_core.target import Target


def manifests(
    targets: Sequence[Target], shared: Sequence[Volume], spec: Kubernetes, *, client_id: str = ""
) -> dict[str, str]:
    """Returns the files by path, for the pools `targets` and the file systems that they mount.

    `client_id` is that of the Azure identity of tasks' pods; it may be a Terraform reference, and
    so may the sources of volumes.
    """
    queued = [each for each in targets if access_of(each).queue]
    types = {volume.type for volume in shared}
    files = {
        "jobs/namespace.yaml": [
            *namespace(access_of(targets[0]).namespace, spec.quota),
            *admission.policy(targets),
            *admission.policy_of_head(access_of(targets[0])),
        ],
        "jobs/volumes.yaml": pools.objects(shared, access_of(targets[0]).namespace),
        "jobs/head.yaml": head.objects(_of_all(targets), client_id=client_id),
        "jobs/topologies.yaml": head.topologies(targets),
        "drivers/drivers.yaml": drivers.installation(targets, types, spec.operators),
        "devices/devices.yaml": drivers.devices(targets, spec.operators),
        "health/health.yaml": health.objects(targets),
        "nodes/node-setup.yaml": node_setup.objects(targets),
    }
    if queued:
        files["kueue/kueue.yaml"] = queues.installation(spec.operators.kueue, spec.wait_for_pods)
        files["queues/queues.yaml"] = queues.objects(queued, atomic=spec.atomic_scale_up)
    return {path: documents.text(objects) for path, objects in files.items() if objects}


def namespace(name: str, quota: Mapping[str, str]) -> list[Manifest]:
    """Returns the namespace of jobs and its quota."""
    # No job gets a public address or a port on every node.
    closed = {"services.loadbalancers": "0", "services.nodeports": "0"}
    quotas = manifest("v1", "ResourceQuota", "fairway", name, spec={"hard": {**closed, **quota}})
    # A task's pod locks memory for InfiniBand, which the baseline of Pod Security does not allow:
    # a policy decides which pods are allowed, see `admission`.
    return [privileged_namespace(name), quotas]


def _of_all(targets: Sequence[Target]) -> Target:
    """Returns a target with the volumes of all, for the head pod that they share."""
    claims: dict[str, str] = {}
    mounts: dict[str, str] = {}
    for target in targets:
        claims |= access_of(target).volumes
        mounts |= target.mounts
    access = access_of(targets[0]).model_copy(update={"volumes": claims})
    return targets[0].model_copy(update={"kubernetes": access, "mounts": mounts})
