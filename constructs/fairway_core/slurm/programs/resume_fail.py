"""ResumeFailProgram: nodes that did not come up in time are cloud again, and may be asked for."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from . import slurm
from .program import for_each_scale_set

if TYPE_CHECKING:
    from .capacity import Capacity
    from .settings import Settings


def _resume_fail(capacity: Capacity, names: list[str], settings: Settings) -> None:
    try:
        capacity.release(names)
    finally:
        # Slurm leaves them down, and their jobs in the queue, until somebody says this.
        slurm.update_nodes(settings, names, "resume")


if __name__ == "__main__":
    sys.exit(for_each_scale_set(_resume_fail))
