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

    `scratch` is the local disk of each node. `shared` is a folder that all nodes see; `to` may name
    it. Files that are already there are not copied again.
    """

    from_: Annotated[ContainerPath, Field(alias="from")]
    """The blobs, as `CONTAINER:PATH`."""
    stage: Literal["scratch", "shared"] = "scratch"
    """Where to copy them: to each node (`scratch`), or once for all (`shared`)."""
    to: MountedPath | None = None
    """The folder for `shared`, as `MOUNT:PATH`; by default Fairway chooses one."""

    @field_validator("to")
    @classmethod
    def _is_shared(cls, to: str | None, info: ValidationInfo) -> str | None:
        if to is not None and info.data.get("stage") != "shared":
            raise FieldError(
                "only an input with `stage: shared` has a folder", "add `stage: shared`"
            )
        return to


class KeptInput(Model):
    """An output of an earlier run, as it is when the job is submitted."""

    from_: Annotated[Literal["run"], Field(alias="from")]
    """`run`: an output of a run."""
    run: RunName
    """Run ID, or any unique prefix."""
    task: Annotated[int, Field(ge=0)] | Literal["finally"] | None = None
    """Task number, or `finally`; needed if the run has several tasks."""
    output: Identifier | None = None
    """Name of the output; by default the input's own name."""


class Best(Model):
    """The task of a sweep whose last value of a metric was the best, as `fairway best` finds it."""

    run: RunName
    """Run ID, or any unique prefix."""
    metric: Identifier | None = None
    """The metric; needed if the run's job has several."""
    better: Literal["lower", "higher"] | None = None
    """Which values are better; needed if neither the run's job nor the metric's name says so."""
    output: Identifier | None = None
    """Name of the output; by default the input's own name."""


class BestInput(Model):
    """An output of the best task of an earlier run, chosen when the job is submitted; of a step of
    the same file, once that step has ended."""

    best: Best
    """The run, and the metric that decides."""


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
