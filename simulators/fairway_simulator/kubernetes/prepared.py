"""The target that `bin/kubernetes-simulator` is: a claim of storage, and a head pod."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from fairway_core.kubernetes import documents, head
from fairway_core.target import KubernetesAccess, NodeRange, Target
from fairway_simulator.command import write_private
from fairway_simulator.kubernetes.cluster import CONTEXT

if TYPE_CHECKING:
    from fairway_simulator.kubernetes.cluster import KubernetesCluster

KUBECONFIG = Path(".fairway", "kubernetes-sim.kubeconfig")
"""In a project's folder, the way to the cluster that was started there last."""
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
            kubeconfig=str(KUBECONFIG),
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


def publish(cluster: KubernetesCluster, project: Path) -> None:
    """Lets the target of the project's folder lead to this cluster."""
    file = project / KUBECONFIG
    file.parent.mkdir(exist_ok=True)
    write_private(file, cluster.kubeconfig.read_text())


def withdraw(cluster: KubernetesCluster, project: Path) -> None:
    """Takes that back, unless it leads to another by now."""
    file = project / KUBECONFIG
    with suppress(FileNotFoundError):
        if file.read_text() == cluster.kubeconfig.read_text():
            file.unlink()
