"""The `sweep:` section of a job file."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import AfterValidator, ConfigDict, Field, Tag, model_validator

from fairway_core.documents import FieldError, Model, require, rule
from fairway_runner.jobs.job_fields import Identifier, Scalar, require_pattern
from fairway_runner.jobs.sweep_values import (
    MOST_POINTS,
    Axis,
    Called,
    Distribution,
    OneKey,
    Range,
    ScalarAxis,
    length_of,
    shape_discriminator,
)

if TYPE_CHECKING:
    from fairway_core.yaml_text import DataPath


def _pattern(value: str) -> str:
    if not [part for part in value.split("/") if part not in ("", ".")]:
        raise FieldError("the pattern names no file", "for example data/*.csv")
    if ".." in value.split("/"):
        raise FieldError("`..` leads out of the job's folder", "write the files' absolute path")
    return value


def _name_pattern(value: str) -> str:
    if value.startswith("/"):
        message = "the pattern begins with `/`"
        raise FieldError(message, "leave it out: names begin below the input's folder")
    return _pattern(value)


FilePattern = Annotated[str, AfterValidator(_pattern)]
"""Shell pattern, absolute or relative to the job's folder; `**` matches any depth of folders,
including linked ones."""

NamePattern = Annotated[str, AfterValidator(_name_pattern)]
"""Shell pattern of names below a folder; `**` matches any depth, including linked folders."""

_NAME = r"[^\W\d]\w*"
FunctionReference = Annotated[
    str,
    require_pattern(
        rf"{_NAME}(\.{_NAME})*:{_NAME}",
        "does not name a function",
        "write module:function, for example my_points:generate",
    ),
]
"""`module:function` of a module in the job's folder."""

# A larger count is only called large: nobody reads its digits.
_COUNTABLE = 10**15
_MOST_SHOWN = 20  # values of a parameter in a hint


def _equally_long(axes: dict[str, Any]) -> dict[str, Any]:
    first, length = next(((name, length_of(axis)) for name, axis in axes.items()), ("", 0))
    for name, axis in axes.items():
        if length_of(axis) != length:
            message = f"`{first}` has {length} values and `{name}` has {length_of(axis)}"
            hint = (
                "zip combines the first values, then the second ones, and so on; grid "
                "combines each with each"
            )
            raise FieldError(message, hint, (name,))
    return axes


class _OneList(Model):
    """A parameter of any name, and the values that its lists consist of."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[Identifier, ScalarAxis]

    SHORTER: ClassVar[str] = "use a smaller length"

    length: Annotated[int, Field(ge=1, le=1000)]
    """Number of values to choose."""

    @rule
    def _chooses_from_one_parameter(self) -> None:
        names = list(self.__pydantic_extra__)
        if not names:
            raise FieldError("it names no parameter", "for example {pair: [a, b, c], length: 2}")
        if len(names) > 1:
            message = f"it names two parameters, `{names[0]}` and `{names[1]}`"
            raise FieldError(message, "keep one of them", (names[1],))
        name, axis = self.parameter
        if self.length > length_of(axis) and not getattr(self, "replacement", False):
            message = f"`length` is {self.length}, but `{name}` has {length_of(axis)} values"
            raise FieldError(message, self.SHORTER, ("length",))

    @property
    def parameter(self) -> tuple[str, list[Scalar] | Range]:
        return next(iter(self.__pydantic_extra__.items()))


class Combinations(_OneList):
    """Every choice of `length` values regardless of order, each as a list.

    They come in the order of Python's `itertools`.
    """

    SHORTER: ClassVar[str] = "use a smaller length, or add `replacement: true`"

    replacement: bool = False
    """If true, a value may be chosen more than once."""

    @property
    def count(self) -> int:
        values = length_of(self.parameter[1])
        return math.comb(values + self.length - 1 if self.replacement else values, self.length)


class Permutations(_OneList):
    """Every ordered choice of `length` values, each as a list."""

    @property
    def count(self) -> int:
        return math.perm(length_of(self.parameter[1]), self.length)


_Drawn = Annotated[Distribution, Called("a distribution such as {uniform: [0, 1]}")]


class Random(Model):
    """Points with random values; each further key is a parameter with its `Distribution`.

    The same seed gives the same points with the same version of Python; `retry` and `rerun` have
    those of the run. Each parameter has its own random stream, seeded by `seed` and its name:
    adding a parameter or raising `count` changes none of the values already drawn.
    """

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[Identifier, _Drawn]

    count: Annotated[int, Field(ge=1)]
    """Number of points to draw."""
    seed: Annotated[int, Field(ge=0, lt=2**64)] = 0
    """Seed of the random values; another seed gives other values."""

    @rule
    def _has_parameters(self) -> None:
        if not self.parameters:
            raise FieldError("it names no parameter", "for example lr: {loguniform: [0.001, 0.1]}")

    @property
    def parameters(self) -> dict[str, Distribution]:
        return self.__pydantic_extra__


class FilesOfInput(Model):
    """The files of an input that is staged from storage, as they are when the job is submitted."""

    input: Identifier
    """Name of the input under `inputs:`."""
    pattern: NamePattern = "**/*"
    """Which of its files, as a shell pattern below the input; `**` is any depth of folders,
    linked ones too."""


class Shards(Model):
    """Splits the files of an input among tasks, for the template `score`."""

    input: Identifier
    """Name of the input under `inputs:`."""
    of: Annotated[int, Field(ge=1)]
    """Number of shares to make, one per task. With fewer files than shares, some tasks have nothing
    to do."""


_Axes = Annotated[
    dict[Identifier, Axis], require(bool, "it names no parameter", "for example {lr: [0.1, 0.01]}")
]
_EqualAxes = Annotated[_Axes, AfterValidator(_equally_long)]


class Generator(OneKey):
    """One source of points, named by its only key."""

    noun: ClassVar[str] = "a generator"

    grid: _Axes | None = None
    """Every combination of the parameters' values; the last key changes fastest."""
    zip: _EqualAxes | None = None
    """The first values together, then the second values together, and so on."""
    combinations: Combinations | None = None
    """Every choice of some values from a list, regardless of order; the parameter is a list."""
    permutations: Permutations | None = None
    """Every ordered choice of some values from a list; the parameter is a list."""
    random: Random | None = None
    """Values drawn from distributions."""
    repeat: Annotated[int, Field(ge=1)] | None = None
    """Number of times to run the job as it is."""
    files: (
        Annotated[
            Annotated[FilePattern, Tag("as it is")] | Annotated[FilesOfInput, Tag("as a mapping")],
            shape_discriminator(str, "a pattern such as data/*.csv, or {input: NAME}"),
        ]
        | None
    ) = None
    """One point per file that matches a pattern, with the parameters `file`, `name` and `stem`: of
    the job's folder, or of an input that is staged from storage."""
    python: FunctionReference | None = None
    """The points that a Python function in the job's folder yields, each a mapping."""
    shards: Shards | None = None
    """One point per share of an input's files, with the parameters `shard` (its number, from 0),
    `shards` (how many there are) and `shard_input`. The template `score` gives each task its
    share."""

    @property
    def count(self) -> int | None:
        """Number of points; None if only looking at files or calling a function can tell."""
        match self.key:
            case "grid":
                return math.prod(map(length_of, self.value.values()))
            case "zip":
                return length_of(next(iter(self.value.values())))
            case "repeat":
                return int(self.value)
            case "shards":
                return int(self.value.of)
            case "files" | "python":
                return None
        return int(self.value.count)


_Listed = Annotated[Generator, Called("a generator such as {repeat: 5}")]
_Generators = Annotated[
    list[_Listed], require(bool, "the list is empty", "for example - grid: {lr: [0.1, 0.01]}")
]


class Sweep(Model):
    """Many tasks from one job: each point of the sweep is a task, with its values of `params`.

    A point's values override the job's own. The points of several generators follow each other.
    """

    max_parallel: Annotated[int, Field(ge=1)] | None = None
    """Largest number of tasks that run at a time; by default as many as the target has room for."""
    points: Annotated[
        Annotated[_Generators, Tag("as it is")] | Annotated[Generator, Tag("as a mapping")],
        shape_discriminator(list, "a list of generators such as {repeat: 5}"),
    ]
    """A generator of points, or a list of them."""

    @model_validator(mode="before")
    @classmethod
    def _has_points(cls, section: Any) -> Any:
        """Rejects generators in the section itself, which belong under `points:`."""
        if not isinstance(section, Mapping) or "points" in section:
            return section
        for name, value in section.items():
            if name not in cls.model_fields:
                inside = f"{name}: …" if name in Generator.model_fields else f"grid: {{{name}: …}}"
                if name not in Generator.model_fields and isinstance(value, list):
                    values = [*map(str, value)]
                    values = values if len(values) <= _MOST_SHOWN else [*values[:3], "…"]
                    inside = f"grid: {{{name}: [{', '.join(values)}]}}"
                hint = f"write `sweep: {{points: {{{inside}}}}}`"
                raise FieldError(f"`{name}` belongs under `points:`", hint, (name,))
        return section

    @rule
    def _is_not_too_large(self) -> None:
        total = 0
        for path, generator in self.generators():
            total += generator.count or 0
            if total > MOST_POINTS:
                raise too_many(total, path)

    def generators(self) -> Iterator[tuple[DataPath, Generator]]:
        """Yields the generators, each with the path of its value below the section."""
        if isinstance(self.points, Generator):
            yield ("points", self.points.key), self.points
            return
        for index, generator in enumerate(self.points):
            yield ("points", index, generator.key), generator


def too_many(count: int | None, path: DataPath) -> FieldError:
    """Returns the error of a sweep with that many points, or with too many to count, at a path."""
    shown = f"more than {MOST_POINTS:,}"
    if count is not None:
        shown = f"{count:,}" if count <= _COUNTABLE else "more than 10^15"
    message = f"the sweep comes to {shown} points: at most {MOST_POINTS:,} are allowed"
    return FieldError(message, "use fewer values, or split the sweep", path)
