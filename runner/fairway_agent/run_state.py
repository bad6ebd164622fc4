"""Where a run stands: what the file `state.json` in its folder holds. Standard library only."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fairway_agent.fields import Fields
from fairway_agent.record import FINAL_STATES, GOING_STATES, state_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping


@dataclass(frozen=True, slots=True)
class RunState:
    """A run: its state and why; since when and until when, in seconds since 1970; the process that
    supervises it; which time it was started, from 0; how many of its tasks are in which state.
    `limit` names the limit of its own that it was over, and `exit_code` is its code then.
    `no_capacity` says of one that is queued that its target has no nodes for it: none can be had,
    or no quota is left."""

    state: str = "queued"
    reason: str | None = None
    started: float | None = None
    ended: float | None = None
    supervisor: int | None = None
    submission: int = 0
    tasks: Mapping[str, int] = field(default_factory=dict)
    exit_code: int | None = None
    limit: str | None = None
    no_capacity: bool = False

    @property
    def goes_on(self) -> bool:
        """Whether something of it is still to come."""
        return self.state in GOING_STATES

    @property
    def is_final(self) -> bool:
        """Whether nothing follows."""
        return self.state in FINAL_STATES

    @classmethod
    def from_json(cls, facts: object) -> RunState:
        """Unfit for what is not one."""
        fields = Fields(facts, "the state")
        found = {name: _READ[name](fields, name) for name in fields.facts if name in _READ}
        return cls(state=state_of(fields), **found)

    def to_json(self) -> dict[str, object]:
        """As `state.json` has it."""
        facts: dict[str, object] = {
            "state": self.state,
            "reason": self.reason,
            "started": self.started,
            "ended": self.ended,
        }
        if self.supervisor is not None:
            facts["supervisor"] = self.supervisor
        facts |= {"submission": self.submission, "tasks": self.tasks}
        if self.exit_code is not None:
            facts["exit_code"] = self.exit_code
        if self.limit is not None:
            facts["limit"] = self.limit
        if self.no_capacity:
            facts["no_capacity"] = True
        return facts


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


_READ: dict[str, Callable[[Fields, str], Any]] = {
    "reason": Fields.text_or_none,
    "started": Fields.moment_or_none,
    "ended": Fields.moment_or_none,
    "supervisor": Fields.whole_or_none,
    "submission": Fields.count,
    "tasks": Fields.counts,
    "exit_code": Fields.whole_or_none,
    "limit": Fields.text_or_none,
    "no_capacity": Fields.flag,
}
