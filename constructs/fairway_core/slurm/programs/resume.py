"""ResumeProgram: has Azure make instances for the nodes that Slurm is going to use."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from .program import for_each_scale_set

if TYPE_CHECKING:
    from .capacity import Capacity
    from .settings import Settings


def _resume(capacity: Capacity, names: list[str], _: Settings) -> None:
    capacity.grow(names)


if __name__ == "__main__":
    sys.exit(for_each_scale_set(_resume))
