"""The job file: what to run, on how many nodes, with which parameters."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, Field, field_validator

from fairway_core.documents import FieldError, Model

Scalar = str | int | float | bool
ParamValue = Scalar | list[Scalar]


def _job_name(value: str) -> str:
    if not re.fullmatch(r"[a-z][a-z0-9-]{0,39}", value):
        raise FieldError(
            f"`{value[:60]}` is not a job's name",
            "up to 40 small letters, digits and hyphens, the first of them a letter",
        )
    return value


def _identifier(value: str) -> str:
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,63}", value):
        raise FieldError(f"`{value[:60]}` is not a name", "use letters, digits and underscores")
    return value


def _variable(value: str) -> str:
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", value):
        mend = "use letters, digits and underscores"
        raise FieldError(f"`{value[:60]}` cannot name an environment variable", mend)
    if value.startswith("FAIRWAY_"):
        raise FieldError(f"`{value}` is Fairway's own", "choose a name without FAIRWAY_")
    return value


def _program_text(value: str) -> str:
    if not value.strip():
        raise FieldError("the command is empty", "say what to run, for example `python train.py`")
    return value


JobName = Annotated[str, AfterValidator(_job_name)]
Identifier = Annotated[str, AfterValidator(_identifier)]
VariableName = Annotated[str, AfterValidator(_variable)]
ProgramText = Annotated[str, AfterValidator(_program_text)]


class Output(Model):
    """A directory that the job fills; its path is in FAIRWAY_OUTPUT_<ID>."""


class Checkpoint(Model):
    """Where a task keeps what it resumes from.

    `directory` is absolute, or relative to the job file's folder; it outlives the run, so
    that the next run of the same job goes on from there. Without it each run has its own.
    """

    directory: Annotated[str, Field(min_length=1)]


class Job(Model):
    """One training job, its values all known.

    `nodes` × `processes_per_node` is the number of ranks. `command` is a shell command
    line; each rank runs it in the job file's folder.
    """

    name: JobName
    template: Annotated[str, Field(min_length=1)] = "openmpi"
    nodes: Annotated[int, Field(ge=1, le=10_000)] = 1
    processes_per_node: Annotated[int, Field(ge=1, le=1024)] = 1
    command: ProgramText
    params: dict[Identifier, ParamValue] = Field(default_factory=dict)
    env: dict[VariableName, str] = Field(default_factory=dict)
    outputs: dict[Identifier, Output] = Field(default_factory=dict)
    checkpoint: Checkpoint | None = None

    @field_validator("outputs")
    @classmethod
    def _outputs_differ(cls, outputs: dict[str, Output]) -> dict[str, Output]:
        seen: dict[str, str] = {}
        for name in outputs:
            other = seen.setdefault(name.upper(), name)
            if other != name:
                message = f"`{other}` and `{name}` would both be FAIRWAY_OUTPUT_{name.upper()}"
                raise FieldError(message, "rename one of the two", (name,))
        return outputs

    @property
    def world_size(self) -> int:
        """The number of ranks."""
        return self.nodes * self.processes_per_node
