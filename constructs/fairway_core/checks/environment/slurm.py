"""Rules on clusters with Slurm."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairway_core.catalog import images
from fairway_core.checks.check import Fault, Subject, check
from fairway_core.checks.environment import occurrences
from fairway_core.findings import Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fairway_core.catalog import Image, VmSize

# What nodes with an HPC image need at least, drivers and all.
_BOOT_SECONDS = 300


@check("slurm-image", Severity.ERROR, Subject.ENVIRONMENT, at=occurrences.slurm_images)
def slurm_image(size: VmSize, image: Image) -> Iterator[Fault]:
    """An image whose distribution has no Slurm that fits the scheduler's.

    Nodes have the scheduler's packages, which are of Ubuntu 24.04, wherever `slurm.packages` says
    that they come from. Ubuntu 22.04 has 21.08, which knows neither nodes that come and go as these
    do nor today's control groups, and Enterprise Linux has none.

    Wrong:
        clusters:
          nd:
            engine: slurm
            size: Standard_ND96isr_H100_v5
            nodes: {min: 0, max: 4}
            image: ubuntu-hpc-2204
            mounts: [data]

    Right:
        clusters:
          nd: {engine: slurm, size: Standard_HB176rs_v4, nodes: {min: 0, max: 4}, mounts: [data]}
    """
    if image.slurm:
        return
    fitting = [each.alias for each in images().values() if each.slurm and each.fits(size)]
    hint = f"use `image: {fitting[0]}`" if fitting else "use another size, or `engine: ssh`"
    yield Fault(f"image `{image.alias}` is not of Ubuntu 24.04, as the scheduler is", hint)


@check("short-idle", Severity.WARNING, Subject.ENVIRONMENT, at=occurrences.idle_times)
def short_idle(idle: float) -> Iterator[Fault]:
    """Nodes that are deleted sooner than Azure could bring new ones.

    A node of an HPC image takes five to ten minutes to boot. Where the queue is empty for a
    moment only, waiting for the next job costs less than that.

    Wrong:
        slurm: {idle: 2m}
        clusters:
          nd: {engine: slurm, size: Standard_HB176rs_v4, nodes: {min: 0, max: 4}, mounts: [data]}

    Right:
        slurm: {idle: 10m}
        clusters:
          nd: {engine: slurm, size: Standard_HB176rs_v4, nodes: {min: 0, max: 4}, mounts: [data]}
    """
    if idle < _BOOT_SECONDS:
        yield Fault(
            f"idle nodes are deleted after {idle:.0f} s, and a new one takes longer to start",
            "for example `idle: 10m`",
        )
