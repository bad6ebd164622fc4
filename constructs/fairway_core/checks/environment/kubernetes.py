"""Rules on node pools of Kubernetes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairway_core.catalog import vm_size
from fairway_core.checks.check import Fault, Subject, check
from fairway_core.findings import Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fairway_core.checks.check import Occurrence
    from fairway_core.checks.subjects import EnvironmentSubject


def _fast_pools(subject: EnvironmentSubject) -> Iterator[Occurrence]:
    """Every node pool of a size with InfiniBand: `least` nodes, and whether it `offers` that."""
    for name, pool in subject.environment.node_pools.items():
        if vm_size(pool.size).rdma:
            yield (
                ("clusters", name, "nodes"),
                {"least": pool.node_range.min, "asked": pool.infiniband},
            )


@check("infiniband-from-zero", Severity.WARNING, Subject.ENVIRONMENT, at=_fast_pools)
def infiniband_from_zero(least: int, asked: bool | None) -> Iterator[Fault]:
    """A node pool of Kubernetes that may have no nodes, of a size with InfiniBand.

    AKS starts nodes for what pods ask for and a node would offer. Of a pool without nodes it knows
    the GPUs by the size; whether it knows the InfiniBand adapters nobody has verified. Where it
    does not, jobs that ask for them wait for ever.

    Wrong:
        clusters:
          nd:
            engine: kubernetes
            size: Standard_ND96isr_H100_v5
            nodes: {min: 0, max: 4}
            mounts: [data]
            job_image: train:1

    Right:
        clusters:
          nd:
            engine: kubernetes
            size: Standard_ND96isr_H100_v5
            nodes: {min: 1, max: 4}
            mounts: [data]
            job_image: train:1
    """
    if least > 0 or asked is False:
        return
    if asked:
        yield Fault(
            "it is not verified that AKS starts a node for InfiniBand in a pool that has none",
            "try whether a job on it starts, and then ignore this check; or keep a node: `min: 1`",
        )
        return
    yield Fault(
        "jobs on it get no InfiniBand: AKS may not start a first node for it",
        "keep a node: `min: 1`; or try `infiniband: true`; or set `infiniband: false`",
    )
