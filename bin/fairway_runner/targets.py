"""The targets that a job can be sent to, by name."""

from __future__ import annotations

from fairway_core.findings import UserError
from fairway_core.spelling import did_you_mean
from fairway_core.target import Target


def find_target(name: str) -> Target:
    """The target of that name; UserError where there is none."""
    known = {"local": Target.local()}
    if name not in known:
        mend = did_you_mean(name, known)
        raise UserError.of("unknown-target", f"there is no target `{name}`", mend)
    return known[name]
