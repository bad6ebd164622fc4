"""The kinds of clusters of an environment: one for each engine."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from fairway_core.environment.batch import BatchCluster
from fairway_core.environment.cluster import Cluster
from fairway_core.environment.kubernetes import KubernetesNodes
from fairway_core.environment.slurm import SlurmNodes

AnyCluster = Annotated[
    Cluster | SlurmNodes | BatchCluster | KubernetesNodes, Field(discriminator="engine")
]

MachineCluster = Cluster | SlurmNodes | BatchCluster
"""Clusters whose nodes boot an image that the environment chooses."""
