"""Fields of a job file with a grammar of their own: parameters, labels, inputs, targets."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, Discriminator, Field, Tag, ValidationInfo, field_validator

from fairway_core.documents import Check, Document, FieldError, Model, require, rule
from fairway_core.findings import Finding, Severity
from fairway_core.light_fields import Name

if TYPE_CHECKING:
    from fairway_core.yaml_text import DataPath

Scalar = str | int | float | bool
ParamValue = Scalar | list[Scalar]

IDENTIFIER = r"[A-Za-z_][A-Za-z0-9_]{0,63}"
"""Pattern of parameter names."""


def require_pattern(pattern: str, fault: str, hint: str, *, in_schema: bool = False) -> Check:
    """Returns a check for the form of a text, which may be `in_schema`, for editors."""
    is_fit = partial(re.fullmatch, pattern)
    return require(is_fit, f"`{{:.60}}` {fault}", hint, pattern if in_schema else "")


Identifier = Annotated[
    str, require_pattern(IDENTIFIER, "is not a name", "use letters, digits and underscores")
]


def changed_numbers(document: Document, names: Collection[str]) -> Iterator[Finding]:
    """Yields a warning about each number for these parameters that a template prints in another
    form than the file: about 1.10, which prints as 1.1, but not about 1e-4, which can only be meant
    as a number."""
    for path, value in leaves({key: document.data.get(key) for key in ("params", "sweep")}):
        if isinstance(value, bool) or not isinstance(value, int | float):
            continue
        written = document.written(path, value)
        is_named = path[0] == "params" or not {*path[-2:]}.isdisjoint(names)
        if is_named and written != str(value) and not re.search("[eE]-", written):
            dotted = ".".join(map(str, path))
            message = f"`{dotted}`: a template prints {value} for {written}"
            hint = f"where it is text, put it in quotes: {document.quoted(path, value)}"
            found = document.finding("changed-number", path, message, hint)
            yield replace(found, severity=Severity.WARNING)


def leaves(value: Any, path: DataPath = ()) -> Iterator[tuple[DataPath, Any]]:
    """Yields each value in nested mappings and lists that is neither, with its path."""
    if isinstance(value, dict | list):
        for step, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(item, (*path, step))
    else:
        yield path, value


_MOST_CHARACTERS = 10_000


def tag(value: str) -> str:
    """Checks and returns a tag. Raises FieldError if it is invalid."""
    if not re.fullmatch(r"\w[\w.:=/@+-]{0,62}", value):
        hint = "up to 63 letters, digits and any of _ . : = / @ + -, for example lr=high"
        raise FieldError(f"`{value[:70]}` is not a tag", hint)
    return value


def note(value: str) -> str:
    """Checks and returns a note. Raises FieldError if it is too long."""
    if len(value) > _MOST_CHARACTERS:
        message = f"a note of {len(value):,} characters is too long"
        raise FieldError(message, f"{_MOST_CHARACTERS:,} at most")
    return value.strip()


RunTag = Annotated[str, AfterValidator(tag)]
Tags = Annotated[tuple[RunTag, ...], AfterValidator(lambda tags: tuple(dict.fromkeys(tags)))]
Note = Annotated[str, AfterValidator(note)]

_GPUS = "GPUs come with the nodes of the target; `gpus: 1` takes one of a node"
_RANKS = "nodes come with all their GPUs; a rank on each is `processes_per_node: gpus`"
_COMMAND = "write what runs as `command: python train.py`"
_ENV = "write variables as `env: {NAME: VALUE}`"
_NODES = "write the number of nodes as `nodes: 2`"
_TIMEOUT = "write how long it may take as `timeout: 2h`"
_IMAGE = "write `container: {image: REGISTRY/NAME:TAG}`"
_CODE = "the job file's own folder is copied; for another: `code: {path: FOLDER}`"
_ORDER = "write it under target: `target: {in_order: [FIRST, SECOND]}`"
STAYS = (
    "a run stays on the target that it was submitted to: leave it out; to move one that waits, "
    "cancel it, and submit the job to another"
)
_INPUTS = "name what it reads as `inputs: {data: MOUNT:PATH}`"
_STEPS = "write them in a job file, and submit its path"
_TARGET = "write `target: NAME`, or `fairway submit JOB --target NAME`"

FOREIGN_KEYS = MappingProxyType(
    {
        **dict.fromkeys(("resources", "gpu", "accelerators", "num_gpus"), _GPUS),
        **dict.fromkeys(("gpus_per_node", "gpu_count", "ngpus", "nproc_per_node"), _RANKS),
        **dict.fromkeys(("ntasks_per_node", "ranks_per_node", "ntasks"), _RANKS),
        **dict.fromkeys(("script", "run", "commands", "cmd", "entrypoint", "args"), _COMMAND),
        **dict.fromkeys(("environment", "environment_variables", "envs", "variables"), _ENV),
        **dict.fromkeys(("num_nodes", "node_count", "instance_count", "instances"), _NODES),
        **dict.fromkeys(("time", "time_limit", "walltime"), _TIMEOUT),
        **dict.fromkeys(("image", "docker", "docker_image"), _IMAGE),
        **dict.fromkeys(("workdir", "working_dir", "src", "file_mounts"), _CODE),
        "in_order": _ORDER,
        "patience": STAYS,
        "steps": _STEPS,
        **dict.fromkeys(("mounts", "volumes"), _INPUTS),
        **dict.fromkeys(("compute", "partition", "queue", "pool"), _TARGET),
    }
)

_PREEMPTION = "nodes that are taken away with notice are `retry: {preemption: 3}`"
_NODE = "nodes that are lost are `retry: {node: 3}`"
_ERROR = "failures of the job's own are `retries: 3`"

FOREIGN_CAUSES = MappingProxyType(
    {
        **dict.fromkeys(("spot", "eviction", "evictions", "interruption"), _PREEMPTION),
        **dict.fromkeys(("node_failure", "lost", "hardware", "no_capacity"), _NODE),
        **dict.fromkeys(("failure", "failures", "attempts", "count", "max", "limit"), _ERROR),
    }
)


def _each_once(names: tuple[str, ...]) -> tuple[str, ...]:
    if not names:
        raise FieldError("this names no target", "name at least one")
    for index, name in enumerate(names):
        if name in names[:index]:
            raise FieldError(f"`{name}` is there twice", "name each target once", (index,))
    return names


Names = Annotated[tuple[Name, ...], AfterValidator(_each_once)]

_Figure = Annotated[
    str,
    require_pattern(
        r"price(/[A-Za-z_][A-Za-z0-9_]*)?",
        "is not an order",
        "write `price`, or `price/METRIC`",
        in_schema=True,
    ),
]


class Where(Model):
    """Several targets. A run goes to the first one that has room when it is submitted."""

    FOREIGN: ClassVar[Mapping[str, str]] = MappingProxyType({"patience": STAYS})

    in_order: Names | None = None
    """Names of targets, in order of preference."""
    cheapest: Names | None = None
    """Names of targets to order by cost, in place of `in_order`."""
    by: _Figure | None = None
    """The cost to order them by: `price`, the price of a node, which is the default; or
    `price/METRIC`, such as `price/images_per_second`, with the metric of the job's last successful
    run on each.
    """

    @rule
    def _one_of_two(self) -> None:
        if (self.in_order is None) == (self.cheapest is None):
            message = "give either `in_order` or `cheapest`"
            raise FieldError(message, "write {in_order: [FIRST, SECOND]}")
        if self.by is not None and self.cheapest is None:
            raise FieldError("`by` has no effect with `in_order`", "leave it out", ("by",))

    @property
    def names(self) -> tuple[str, ...]:
        """All of the targets, as the job names them."""
        return self.in_order or self.cheapest or ()

    @property
    def metric(self) -> str:
        """Metric by which the price is divided; "" for the price alone."""
        return (self.by or "").partition("/")[2]


Targets = Name | Names | Where


class _Placed(Model):
    """The one field of a job that says where it runs."""

    target: Targets | None = None


def where_of(document: Document) -> Where | None:
    """Reads the job's `target` alone; None if it has none. Raises UserError with the line of an
    error in it."""
    data = document.data
    if not isinstance(data, dict) or "target" not in data:
        return None
    found = replace(document, data={"target": data["target"]}).validate(_Placed).target
    if found is None or isinstance(found, Where):
        return found
    return Where(in_order=(found,) if isinstance(found, str) else found)


def place_of(document: Document, name: str) -> str:
    """Returns the dotted path of the field in which a job names a target."""
    target, path = document.data["target"], "target"
    if isinstance(target, dict):
        key = "in_order" if target.get("in_order") else "cheapest"
        target, path = target[key], f"{path}.{key}"
    return f"{path}.{target.index(name)}" if isinstance(target, list) else path


def _place(what: str, names: str, hint: str) -> Check:
    """Returns a check for `NAME:PATH`, whose path has no part `..`."""

    def is_place(value: str) -> bool:
        name, colon, path = value.partition(":")
        return bool(colon and re.fullmatch(names, name) and ".." not in path.split("/"))

    return require(is_place, f"`{{}}` is not a path {what}", hint)


MountedPath = Annotated[
    str,
    _place("on a mount", r"[a-z][a-z0-9-]*", "write MOUNT:PATH, for example data:/imagenet/train"),
]
ContainerPath = Annotated[
    str,
    _place(
        "in a storage container",
        r"[a-z0-9](-?[a-z0-9])+",
        "write CONTAINER:PATH, for example datasets:words/",
    ),
]
RunName = Annotated[str, Field(min_length=1, max_length=63)]


class StagedInput(Model):
    """Blobs that are copied to the nodes before the tasks, and checked against their digests.

    `scratch` is the local disk of each node. `shared` is a folder that all nodes see; `to` may name
    it. Files that are already there are not copied again.
    """

    from_: Annotated[ContainerPath, Field(alias="from")]
    """The blobs, as `CONTAINER:PATH`."""
    stage: Literal["scratch", "shared"] = "scratch"
    """The place to copy them to: each node (`scratch`), or one for all (`shared`)."""
    to: MountedPath | None = None
    """The folder for `shared`, as `MOUNT:PATH`; by default Fairway chooses one."""

    @field_validator("to")
    @classmethod
    def _is_shared(cls, to: str | None, info: ValidationInfo) -> str | None:
        if to is not None and info.data.get("stage") != "shared":
            message = "only an input with `stage: shared` has a folder"
            raise FieldError(message, "add `stage: shared`")
        return to


class RunInput(Model):
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
    """Returns the kind of an input, never named like a key: error locations would be lost."""
    match value:
        case str():
            return "a path"
        case BestInput() | {"best": _}:
            return "of the best"
        case RunInput() | {"from": "run"} | {"run": _}:
            return "of a run"
        case StagedInput() | Mapping():
            return "of storage"
    return None


Input = Annotated[
    Annotated[MountedPath, Tag("a path")]
    | Annotated[StagedInput, Tag("of storage")]
    | Annotated[RunInput, Tag("of a run")]
    | Annotated[BestInput, Tag("of the best")],
    Discriminator(_kind, custom_error_type="input", custom_error_message="text or a mapping"),
]
"""One of them."""
