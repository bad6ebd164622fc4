"""What Kubernetes has given the task of this pod of its node. Standard library only."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from fairway_agent.share import Share, ports_beside

if TYPE_CHECKING:
    from fairway_agent.allocators.hosts import Host
    from fairway_agent.share import Wanted


def with_share(
    host: Host, wanted: Wanted, part: float | None, devices: Path = Path("/dev")
) -> Host:
    """The pod's node, with what of it the pod has; the `part` is that of the submission."""
    count = wanted.gpus or 0
    # Those of the node, where the container has no other files of devices than its own.
    found = sorted(
        int(file.name[6:])
        for file in devices.glob("nvidia[0-9]*")
        if file.name[6:].isdecimal() and count
    )
    gpus = tuple(found if len(found) == count else range(count))
    cores = tuple(sorted(os.sched_getaffinity(0)))
    if len(cores) == os.cpu_count():
        cores = ()  # its time on all of them is limited, and no more
    # A pod has an address of its own, and all ports of that.
    return replace(host, share=Share(gpus, cores, part or 1.0, ports_beside([0], 1)))
