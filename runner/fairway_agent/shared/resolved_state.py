"""What became of one task, where a scheduler started it. Standard library only."""

from __future__ import annotations

from dataclasses import dataclass, replace

from fairway_agent.task_state import TIMED_OUT, TaskState


@dataclass(frozen=True)
class ResolvedState:
    """A task's state now: `status` as its file is to have it; `waits` says why it is queued, and
    `rests` why it does nothing though it runs. `no_capacity` says that its nodes cannot be had."""

    status: TaskState
    waits: str = ""
    rests: str = ""
    no_capacity: bool = False

    @property
    def state(self) -> str:
        """The state's name."""
        return self.status.state

    @property
    def is_final(self) -> bool:
        """Whether nothing follows."""
        return self.status.is_final


def waiting(known: TaskState, why: str, otherwise: str) -> ResolvedState:
    """A task that is to begin; one that has begun before keeps how often, and says why it waits."""
    kept = TaskState(
        attempt=known.attempt,
        started=known.started,
        held=known.held,
        submission=known.submission,
        failures=known.failures,
        requeues=known.requeues,
        ends=known.ends_with_this or None,
    )
    if kept != TaskState():
        kept = replace(kept, reason=why or otherwise)
    return ResolvedState(kept, why)


def ended(known: TaskState, state: str, code: int, reason: str, moment: float) -> TaskState:
    """The last state of a task that could not write it itself."""
    # Times may be whole seconds: one that ended at once would have done so before it began.
    moment = known.ended or max(moment, known.started or 0.0)
    found = replace(known, state=state, ended=moment, exit_code=code, timed_out=code == TIMED_OUT)
    return replace(found, reason=reason or None, stopped=None)
