"""How a task of a Batch pool has ended, in its own words: the service knows an exit code. Read by
who shows the run, and by what tells people of it. Standard library only."""

from __future__ import annotations

from dataclasses import dataclass

from fairway_agent.fields import Fields
from fairway_agent.task_state import TaskState

FILE = "ending.json"


@dataclass(frozen=True, slots=True)
class Ending:
    """Of a `task` its last state, by what the attempt said that ended at `node`; `job` is the
    service's. `limit` names the limit of the run that it was over, and `why` what a person is told
    of that."""

    job: str
    task: str
    node: str
    state: TaskState
    limit: str | None = None
    why: str | None = None

    @classmethod
    def from_json(cls, facts: object) -> Ending:
        """Unfit for what is not one."""
        fields = Fields(facts, "the ending")
        return cls(
            job=fields.text("job"),
            task=fields.text("task"),
            node=fields.text("node"),
            state=TaskState.from_json(fields.facts.get("state")),
            limit=fields.text_or_none("limit"),
            why=fields.text_or_none("why"),
        )

    def to_json(self) -> dict[str, object]:
        """As the file has it."""
        return {
            "job": self.job,
            "task": self.task,
            "node": self.node,
            "state": self.state.to_json(),
            "limit": self.limit,
            "why": self.why,
        }
