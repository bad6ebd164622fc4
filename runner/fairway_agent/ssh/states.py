"""Where the runs of a plain cluster stand: as their folders say, or lost. Standard library only."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING, Any

from fairway_agent.record import goes_on
from fairway_agent.shared import states
from fairway_agent.ssh.start import is_watched

if TYPE_CHECKING:
    from pathlib import Path

_REASON = "its supervisor on the main host is gone"


def answer(shared: Path, request: dict[str, Any], payload: IO[bytes]) -> dict[str, Any]:
    """See `shared.states`; a run that goes on and that nobody watches is lost."""
    found: dict[str, Any] = states.answer(shared, request, payload)
    for run, facts in found["runs"].items():
        if facts is None or facts["state"] is None or not goes_on(facts["state"]):
            continue
        folder = shared / "runs" / run
        if is_watched(folder):
            continue
        # It may have ended between the two looks, with everything that is to be known of it.
        again = states.answer(shared, {"runs": {run: request["runs"][run]}}, payload)["runs"][run]
        if goes_on(again["state"]):
            again["state"] |= {"state": "lost", "reason": _REASON}
        found["runs"][run] = again
    return found
