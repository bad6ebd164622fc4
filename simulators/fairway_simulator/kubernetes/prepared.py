"""The target that `bin/kubernetes-simulator` is: a claim of storage, and a head pod."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairway_core.kubernetes import documents, head
from fairway_core.target import KubernetesAccess, NodeRange, Target
from fairway_simulator.kubernetes.cluster import CONTEXT

if TYPE_CHECKING:
    from fairway_simulator.kubernetes.cluster import KubernetesCluster

CLAIM = "data"
"""The claim of storage that the cluster has from the start."""
_MOUNT = "/mnt/data"  # where pods have it: no folder of this machine is in its way


def target() -> Target:
    """As the repository's fairway.yaml has it."""
    return Target(
        name=CONTEXT,
        engine="kubernetes",
        nodes=NodeRange(min=3, max=100),
        mounts={CLAIM: _MOUNT},
        kubernetes=KubernetesAccess(
            context=CONTEXT,
            image="sim:1",
            volumes={CLAIM: CLAIM},
            shared=f"{_MOUNT}/fairway",
            selector={"agentpool": "sim"},
            resources={"cpu": "30", "memory": "200Gi"},
        ),
    )


def prepare(cluster: KubernetesCluster) -> None:
    """Makes the claim and the head pod, and returns when that runs."""
    cluster.claim(CLAIM)
    cluster.kubectl("apply", "-f", "-", stdin=documents.text(head.objects(target())))
    access = target().kubernetes
    assert access is not None, "a target with this engine has the section"
    cluster.kubectl("rollout", "status", f"deployment/{access.head}")
