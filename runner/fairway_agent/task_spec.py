"""What one task of a run is to do: its line in `tasks.jsonl`. See `plan` for what holds for all
tasks. Standard library only."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fairway_agent.fields import Fields
from fairway_agent.share import Wanted

if TYPE_CHECKING:
    from collections.abc import Mapping


LAST = "finally"
"""The name of the task that comes after all others. Earlier releases gave it a number."""
_NAMES = ("setup", "release", LAST)


@dataclass(frozen=True, slots=True)
class Output:
    """Files that a task keeps: those below its output folder that match the `pattern`, or one of
    those in `also`, `when` it ended with success, with failure, or always. `exclude` are shell
    patterns of paths and names that are left out. One that is `required` must not be empty."""

    pattern: str
    when: str
    also: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    required: bool = False

    @property
    def patterns(self) -> tuple[str, ...]:
        """All that choose files."""
        return (self.pattern, *self.also)

    @classmethod
    def from_json(cls, name: str, facts: object) -> Output:
        """Unfit for what is not one."""
        fields = Fields(facts, f"the output {name}")
        also, exclude = fields.texts("also"), fields.texts("exclude")
        required = fields.flag("required")
        return cls(fields.text("pattern"), fields.text("when"), also, exclude, required)

    def to_json(self) -> dict[str, object]:
        """As the line of its task has it."""
        rare = {"also": list(self.also), "exclude": list(self.exclude), "required": self.required}
        facts = {name: each for name, each in rare.items() if each}
        return {"pattern": self.pattern, "when": self.when, **facts}


@dataclass(frozen=True, slots=True)
class TaskSpec:
    """One task: its number, or its name; the point of a sweep that it is; its size; what it keeps;
    the directory of its checkpoints, where the job names one; variables of its own; its script.
    `wanted` is what it takes of its node, where that is not the whole."""

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

    @classmethod
    def from_json(cls, facts: object) -> TaskSpec:
        """Unfit for what is not one."""
        fields = Fields(facts, "a task")
        is_named = fields.facts.get("index") in _NAMES
        return cls(
            index=fields.text("index") if is_named else fields.count("index"),
            nodes=fields.count("nodes"),
            processes_per_node=fields.count("processes_per_node"),
            script=fields.text("script"),
            params=fields.mapping("params"),
            outputs={
                name: Output.from_json(name, each)
                for name, each in fields.mapping("outputs").items()
            },
            checkpoint=fields.text_or_none("checkpoint"),
            environment=fields.variables("environment"),
            wanted=_wanted(fields),
        )

    def line(self) -> str:
        """As `tasks.jsonl` has it."""
        wanted = self.wanted or Wanted()
        facts = {
            "index": self.index,
            "params": self.params,
            "nodes": self.nodes,
            "processes_per_node": self.processes_per_node,
            **({} if wanted.gpus is None else {"gpus": wanted.gpus}),
            **({} if wanted.cores is None else {"cores": wanted.cores}),
            "outputs": {name: each.to_json() for name, each in self.outputs.items()},
            "checkpoint": self.checkpoint,
            "environment": self.environment,
            "script": self.script,
        }
        return json.dumps(facts) + "\n"


def _wanted(fields: Fields) -> Wanted | None:
    wanted = Wanted(fields.count_or_none("gpus"), fields.count_or_none("cores"))
    if wanted.cores == 0:
        raise fields.unfit("cores")
    return None if wanted == Wanted() else wanted
