"""A target that does not take a run, and has nothing of it: another target may."""

from __future__ import annotations

from fairway_core.findings import UserError


class Unavailable(UserError):
    """The target does not take the run now; it may later."""


class Refused(Unavailable):
    """The target does not take such a run."""
