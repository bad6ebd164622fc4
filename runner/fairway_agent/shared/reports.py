"""What is asked about a run whose files lie in the shared folder, and what is told of it. Both ends
of the connection use these types. Standard library only."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fairway_agent.fields import Fields
from fairway_agent.run_state import RunState
from fairway_agent.shared.pieces import Piece
from fairway_agent.task_state import TaskState

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class Asked:
    """`done` names the tasks whose last state is known already, `logs` from which byte on logs are
    wanted, by the name of the task."""

    done: tuple[str, ...] = ()
    logs: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def from_json(cls, facts: object) -> Asked:
        """Unfit for what is not one."""
        fields = Fields(facts, "the request")
        return cls(fields.texts("done"), fields.counts("logs"))

    def to_json(self) -> dict[str, object]:
        """As it is sent."""
        return {"done": self.done, "logs": self.logs}


@dataclass(frozen=True, slots=True)
class RunReport:
    """Where a run stands, None before that was written; where those of its tasks stand that were
    not known to be done, and its setup, by their names; new pieces of logs. `more` says that there
    are others. `damaged` names a file of the run that cannot be read: nothing else is told then."""

    state: RunState | None = None
    tasks: Mapping[str, TaskState] = field(default_factory=dict)
    logs: Mapping[str, Piece] = field(default_factory=dict)
    more: bool = False
    damaged: str | None = None

    @classmethod
    def from_json(cls, facts: object) -> RunReport:
        """Unfit for what is not one."""
        fields = Fields(facts, "the report")
        if "state" not in fields.facts:
            raise fields.unfit("state")
        state = fields.facts["state"]
        return cls(
            state=None if state is None else RunState.from_json(state),
            tasks={name: TaskState.from_json(v) for name, v in fields.mapping("tasks").items()},
            logs={name: Piece.from_json(v) for name, v in fields.mapping("logs").items()},
            more=fields.flag("more"),
            damaged=fields.text_or_none("damaged"),
        )

    def to_json(self) -> dict[str, object]:
        """As it is sent."""
        facts: dict[str, object] = {
            "state": None if self.state is None else self.state.to_json(),
            "tasks": {name: each.to_json() for name, each in self.tasks.items()},
            "logs": {name: each.to_json() for name, each in self.logs.items()},
            "more": self.more,
        }
        if self.damaged is not None:
            facts["damaged"] = self.damaged
        return facts
