"""Whether a run begins, once those have ended that it comes after.

It is decided once for each submission, and kept in its folder: what they do later changes nothing.
Standard library only.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from fairway_agent import control, predecessors
from fairway_agent.reconcile import goes_on

if TYPE_CHECKING:
    from fairway_agent.plan import RunPlan


def decide(folder: Path, plan: RunPlan, submission: int) -> list[str] | None:
    """What speaks against it, as `run-id failed`: nothing where it is to begin. None while that
    depends on those that go on."""
    with control.locked(folder):
        known = control.read(folder).of(submission).unmet
        if known is not None:
            return list(known)
        going = any(goes_on(Path(each)) for each in plan.after)  # before what they ended with
        unmet = predecessors.unmet(plan.after, plan.conditions)
        if going and not unmet:
            return None
        control.change(folder, submission, unmet=tuple(unmet))
    return unmet
