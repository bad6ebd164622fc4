"""What a job reads: a path on a mount, blobs of storage, or what another run has kept."""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Discriminator, Field, Tag, ValidationInfo, field_validator

from fairway_core.documents import FieldError, Model
from fairway_runner.jobs.params import Identifier


def _mounted_path(value: str) -> str:
    mount, colon, path = value.partition(":")
    if not colon or not re.fullmatch(r"[a-z][a-z0-9-]*", mount) or ".." in path.split("/"):
        hint = "write MOUNT:PATH, for example data:/imagenet/train"
        raise FieldError(f"`{value}` is not a path on a mount", hint)
    return value


def _container_path(value: str) -> str:
    name, colon, path = value.partition(":")
    if not colon or not re.fullmatch(r"[a-z0-9](-?[a-z0-9])+", name) or ".." in path.split("/"):
        hint = "write CONTAINER:PATH, for example datasets:words/"
        raise FieldError(f"`{value}` is not a path in a storage container", hint)
    return value


MountedPath = Annotated[str, AfterValidator(_mounted_path)]
ContainerPath = Annotated[str, AfterValidator(_container_path)]
RunName = Annotated[str, Field(min_length=1, max_length=63)]


class StagedInput(Model):
    """Blobs that are copied to the nodes before the tasks, and checked against their digests.

    `scratch` is the local disk of each node, `shared` a folder that all nodes see, which `to`
    may name. Files that are already there are not copied again.
    """

    from_: Annotated[ContainerPath, Field(alias="from")]
    """Where they are: `CONTAINER:PATH`."""
    stage: Literal["scratch", "shared"] = "scratch"
    """Where they go."""
    to: MountedPath | None = None
    """The folder for `shared`, as `MOUNT:PATH`; by default one of Fairway's own."""

    @field_validator("to")
    @classmethod
    def _is_shared(cls, to: str | None, info: ValidationInfo) -> str | None:
        if to is not None and info.data.get("stage") != "shared":
            raise FieldError(
                "only what is staged for all nodes has a folder", "add `stage: shared`"
            )
        return to


class KeptInput(Model):
    """What a task of an earlier run has kept, as it is when the job is submitted."""

    from_: Annotated[Literal["run"], Field(alias="from")]
    """`run` says that it comes from one."""
    run: RunName
    """The run: its ID, or the beginning of it."""
    task: Annotated[int, Field(ge=0)] | Literal["finally"] | None = None
    """Which of its tasks, a number or `finally`; without it the only one."""
    output: Identifier | None = None
    """Which of its outputs; by default the one that is called as the input is."""


class Best(Model):
    """The task of a sweep whose last value of a metric was the best, as `fairway best` finds it."""

    run: RunName
    """The run: its ID, or the beginning of it."""
    metric: Identifier | None = None
    """The metric; without it the only one that the run's job has."""
    better: Literal["lower", "higher"] | None = None
    """Which values are better, where neither the run's job nor the metric's name says so."""
    output: Identifier | None = None
    """Which of its outputs; by default the one that is called as the input is."""


class BestInput(Model):
    """What the best task of an earlier run has kept, as it is when the job is submitted."""

    best: Best
    """Of which run, and by which metric."""


def _kind(value: Any) -> str | None:
    """Which kind is meant; no name of a kind is a key, by which a fault's place would be lost."""
    if isinstance(value, str):
        return "a path"
    if isinstance(value, Mapping):
        if "best" in value:
            return "of the best"
        return "of a run" if value.get("from") == "run" or "run" in value else "of storage"
    if isinstance(value, BestInput):
        return "of the best"
    if isinstance(value, KeptInput):
        return "of a run"
    return "of storage" if isinstance(value, StagedInput) else None


Input = Annotated[
    Annotated[MountedPath, Tag("a path")]
    | Annotated[StagedInput, Tag("of storage")]
    | Annotated[KeptInput, Tag("of a run")]
    | Annotated[BestInput, Tag("of the best")],
    Discriminator(_kind, custom_error_type="input", custom_error_message="text or a mapping"),
]
"""One of them."""
