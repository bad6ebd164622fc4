"""This machine's GPUs and cores, which say how many processes a job here has by itself."""

from __future__ import annotations

import os
from pathlib import Path


def processes_per_node() -> int:
    """One for each NVIDIA GPU of this machine, or for each core where it has none."""
    gpus = [each for each in Path("/dev").glob("nvidia[0-9]*") if each.name[6:].isdecimal()]
    return len(gpus) or len(os.sched_getaffinity(0))
