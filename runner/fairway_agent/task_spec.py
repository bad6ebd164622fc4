"""What one task of a run is to do: its line in `tasks.jsonl`. See `plan` for what holds for all
tasks. Standard library only."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fairway_agent.json_record import JsonRecord
from fairway_agent.share import Wanted

if TYPE_CHECKING:
    from fairway_agent.fields import Fields


LAST = "finally"
"""The name of the task that comes after all others. Earlier releases gave it a number."""
_NAMES = ("setup", "release", LAST)


@dataclass(frozen=True, slots=True)
class Output(JsonRecord):
    """Files that a task keeps: those below its output folder that match the `pattern`, or one of
    those in `also`, `when` it ended with success, with failure, or always. `exclude` are shell
    patterns of paths and names that are left out. One that is `required` must not be empty."""

    CALLED = "an output"

    pattern: str
    when: str
    also: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    required: bool = False

    @property
    def patterns(self) -> tuple[str, ...]:
        """All that choose files."""
        return (self.pattern, *self.also)


@dataclass(frozen=True, slots=True)
class TaskSpec(JsonRecord):
    """One task: its number, or its name; the point of a sweep that it is; its size; what it keeps;
    the directory of its checkpoints, where the job names one; variables of its own; its script.
    `wanted` is what it takes of its node, where that is not the whole."""

    CALLED = "a task"
    SPARSE = True

    index: int | str
    nodes: int = 1
    processes_per_node: int = 1
    script: str = ""
    params: Mapping[str, Any] = field(default_factory=dict)
    outputs: Mapping[str, Output] = field(default_factory=dict)
    checkpoint: str | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    wanted: Wanted | None = None

    @property
    def name(self) -> str:
        """The task's number, from 0, or `setup`, or `finally`."""
        return str(self.index)

    @property
    def is_last(self) -> bool:
        """Whether it comes after all others, and sees what they have kept."""
        return self.index == LAST

    def check(self, found: Fields) -> None:
        """Unfit for another name, and for what can never run."""
        if isinstance(self.index, str) and self.index not in _NAMES:
            raise found.unfit("index")
        if self.wanted is not None and self.wanted.cores == 0:
            raise found.unfit("wanted")

    def line(self) -> str:
        """As `tasks.jsonl` has it."""
        return json.dumps(self.to_json()) + "\n"
