"""Whether a run begins, once those have ended that it comes after.

It is decided once for each submission, and kept in its folder: what they do later changes nothing.
Standard library only.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from fairway_agent import fields, predecessors, record
from fairway_agent.fields import Fields
from fairway_agent.reconcile import goes_on

if TYPE_CHECKING:
    from fairway_agent.plan import RunPlan

_FILE = "after.json"


def decide(folder: Path, plan: RunPlan, submission: int) -> list[str] | None:
    """What speaks against it, as `run-id failed`: nothing where it is to begin. None while that
    depends on those that go on."""
    with record.alone(folder / "after.lock"):
        known = fields.read(folder / _FILE, partial(_kept, submission))
        if known is not None:
            return known
        going = any(goes_on(Path(each)) for each in plan.after)  # before what they ended with
        unmet = predecessors.unmet(plan.after, plan.conditions)
        if going and not unmet:
            return None
        record.write_json(folder / _FILE, {"submission": submission, "unmet": unmet})
    return unmet


def _kept(submission: int, facts: object) -> list[str] | None:
    found = Fields(facts, "what is decided")
    return list(found.texts("unmet")) if found.count("submission") == submission else None
