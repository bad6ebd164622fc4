"""How a task of a Batch pool has ended, in its own words: the service knows an exit code. Read by
who shows the run, and by what tells people of it. Standard library only."""

from __future__ import annotations

from dataclasses import dataclass

from fairway_agent.json_record import JsonRecord
from fairway_agent.task_state import TaskState

FILE = "ending.json"


@dataclass(frozen=True, slots=True)
class Ending(JsonRecord):
    """Of a `task` its last state, by what the attempt said that ended at `node`; `job` is the
    service's. `limit` names the limit of the run that it was over, and `why` what a person is told
    of that."""

    CALLED = "the ending"

    job: str
    task: str
    node: str
    state: TaskState
    limit: str | None = None
    why: str | None = None
