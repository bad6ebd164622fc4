"""The kinds of clusters of an environment: a module or folder for each engine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from fairway_core.environment.clusters.batch.account import Batch
from fairway_core.environment.clusters.batch.pool import BatchCluster
from fairway_core.environment.clusters.kubernetes.cluster import Kubernetes
from fairway_core.environment.clusters.kubernetes.node_pool import KubernetesNodes
from fairway_core.environment.clusters.slurm.partition import SlurmNodes
from fairway_core.environment.clusters.slurm.scheduler import Slurm
from fairway_core.environment.clusters.ssh import Cluster

if TYPE_CHECKING:
    from fairway_core.environment.clusters.base import HasNodes, Manager

AnyCluster = Annotated[
    Cluster | SlurmNodes | BatchCluster | KubernetesNodes, Field(discriminator="engine")
]

KINDS: Mapping[str, type[HasNodes]] = {
    "ssh": Cluster,
    "slurm": SlurmNodes,
    "batch": BatchCluster,
    "kubernetes": KubernetesNodes,
}
"""The kinds by engine."""
MANAGERS: Mapping[str, type[Manager]] = {"slurm": Slurm, "batch": Batch, "kubernetes": Kubernetes}
"""The shared part of each engine, by the engine, which is also the name of its section."""
MachineCluster = Cluster | SlurmNodes | BatchCluster
"""Clusters whose nodes boot an image that the environment chooses."""
