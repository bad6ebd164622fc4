"""Checks of pools."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairway_core.catalog import vm_size
from fairway_core.checks.check import Subject, Violation, check
from fairway_core.environment.clusters.batch.pool import pool_image
from fairway_core.findings import Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fairway_core.environment import Environment


@check("rdma-only-image", Severity.WARNING, Subject.ENVIRONMENT)
def rdma_only_image(environment: Environment) -> Iterator[Violation]:
    """A Batch pool of a size without InfiniBand with an HPC image that may not start there.

    Batch lists these images for sizes with InfiniBand, but does not enforce it, and no other image
    has drivers for GPUs. The one for Ubuntu 22.04 starts on other sizes too, and is what such pools
    get; the one for 24.04 was seen to fail. An image of your own (`image_id`) is the other way.

    Wrong:
        clusters: {sweep: {engine: batch, size: Standard_NC4as_T4_v3, image: ubuntu-hpc-2404}}

    Right:
        clusters: {sweep: {engine: batch, size: Standard_NC4as_T4_v3, image: ubuntu-hpc-2204}}
    """
    for name, pool in environment.pools.items():
        size, image = vm_size(pool.size), pool.chosen_image
        if pool.image_id or not image.hpc or size.rdma or image.pools_without_rdma:
            continue
        usual, own = pool_image(size).alias, "name an `image_id:` of your own"
        hint = f"use `image: {usual}`, or {own}"
        if usual == image.alias:
            hint = f"start one node; if it starts, ignore this check; or {own}"
        yield Violation(
            f"Batch lists image `{image.alias}` for sizes with InfiniBand, not for {size.name}",
            hint,
            ("clusters", name, "image"),
        )
