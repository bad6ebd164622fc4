"""Where a run stands: what the file `state.json` in its folder holds. Standard library only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from fairway_agent.json_record import JsonRecord, Moment, Whole
from fairway_agent.record import FINAL_STATES, GOING_STATES, STATES

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True, slots=True)
class RunState(JsonRecord):
    """A run: its state and why; since when and until when, in seconds since 1970; the process that
    supervises it; which time it was started, from 0; how many of its tasks are in which state.
    `limit` names the limit of its own that it was over, and `exit_code` is its code then."""

    CALLED = "the state"
    ONE_OF: ClassVar[dict[str, tuple[str, ...]]] = {"state": STATES}

    state: str = "queued"
    reason: str | None = None
    started: Moment | None = None
    ended: Moment | None = None
    supervisor: Whole | None = None
    submission: int = 0
    tasks: Mapping[str, int] = field(default_factory=dict)
    exit_code: Whole | None = None
    limit: str | None = None

    @property
    def goes_on(self) -> bool:
        """Whether something of it is still to come."""
        return self.state in GOING_STATES

    @property
    def is_final(self) -> bool:
        """Whether nothing follows."""
        return self.state in FINAL_STATES


def exit_code_of(state: RunState, codes: Iterable[int | None]) -> int:
    """The job's own code, by those of its setup and of its tasks in their order: 0, or that of the
    first that did not succeed; 124 of a run that was over its own limit; 130 and 5 where a run was
    cancelled, or lost before a task had one."""
    if state.state == "succeeded":
        return 0
    if state.exit_code:
        return state.exit_code
    if state.state == "cancelled":
        return 130
    return next(filter(None, codes), 5)
