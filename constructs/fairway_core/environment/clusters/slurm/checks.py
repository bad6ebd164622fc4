"""Checks of partitions and their scheduler."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairway_core.catalog import images, vm_size
from fairway_core.checks.check import Subject, Violation, check
from fairway_core.findings import Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fairway_core.environment import Environment


@check("slurm-image", Severity.ERROR, Subject.ENVIRONMENT)
def slurm_image(environment: Environment) -> Iterator[Violation]:
    """An image whose distribution has no Slurm that fits the scheduler's.

    Nodes have the scheduler's packages, which are of Ubuntu 24.04, wherever `slurm.packages` says
    that they come from. Ubuntu 22.04 has 21.08, which knows neither nodes that come and go as these
    do nor today's control groups, and Enterprise Linux has none.

    Wrong:
        clusters: {nd: {engine: slurm, size: Standard_ND96isr_H100_v5, image: ubuntu-hpc-2204}}

    Right:
        clusters: {nd: {engine: slurm, size: Standard_ND96isr_H100_v5, image: ubuntu-hpc-2404}}
    """
    for name, cluster in environment.partitions.items():
        if cluster.chosen_image.slurm:
            continue
        size, alias = vm_size(cluster.size), cluster.chosen_image.alias
        fitting = [each.alias for each in images().values() if each.slurm and each.fits(size)]
        hint = f"use `image: {fitting[0]}`" if fitting else "use another size, or `engine: ssh`"
        message = f"image `{alias}` is not of Ubuntu 24.04, as the scheduler is"
        yield Violation(message, hint, ("clusters", name, "image"))


@check("short-idle", Severity.WARNING, Subject.ENVIRONMENT)
def short_idle(environment: Environment) -> Iterator[Violation]:
    """Nodes that are deleted sooner than Azure could bring new ones.

    A node of an HPC image takes five to ten minutes to boot. Where the queue is empty for a
    moment only, waiting for the next job costs less than that.

    Wrong:
        slurm: {idle: 2m}

    Right:
        slurm: {idle: 10m}
    """
    slurm = environment.scheduler
    # The minimum boot time of nodes with an HPC image, including drivers.
    if slurm is not None and slurm.idle < 300:
        yield Violation(
            f"idle nodes are deleted after {slurm.idle:.0f} s, and a new one takes longer to start",
            "for example `idle: 10m`",
            ("slurm", "idle"),
        )
