"""A target that does not take a run, and has nothing of it: another target may."""

from __future__ import annotations

from fairway_core.findings import UserError

FAILED_PREDECESSOR = "failed-predecessor"
"""What is found where a run that another is to wait for has ended otherwise than that wants."""


class Unavailable(UserError):
    """The target does not take the run now; it may later."""


class Refused(Unavailable):
    """The target does not take such a run."""


def gone_input(name: str, path: str) -> UserError:
    """What is said of an input that another run has kept, and that is not there any more."""
    message = f"the input `{name}` no longer exists: {path}"
    hint = "was its run removed? name another under `inputs`, or run that again"
    return Refused.of("no-input", message, hint)
