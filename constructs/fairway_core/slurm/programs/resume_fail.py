"""ResumeFailProgram: nodes that did not come up in time are cloud again, and rest for a while."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from .program import for_each_scale_set

if TYPE_CHECKING:
    from .capacity import Capacity
    from .settings import Settings


def _resume_fail(capacity: Capacity, names: list[str], _: Settings) -> None:
    try:
        capacity.give_up_on(names)
    finally:
        capacity.put_back(names)


if __name__ == "__main__":
    sys.exit(for_each_scale_set(_resume_fail))
