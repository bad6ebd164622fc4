"""Points of a job's sweep: kinds of generators, how they combine, errors with their lines."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ConfigDict, Field

from fairway_core.documents import FieldError, Model
from fairway_core.suggestions import did_you_mean
from fairway_runner.jobs.job_fields import Identifier, ParamValue, Scalar
from fairway_runner.jobs.sweep_models import (
    Combinations,
    Generator,
    Permutations,
    Random,
    Sweep,
    too_many,
)
from fairway_runner.jobs.sweep_values import MOST_POINTS, Range, values_of

if TYPE_CHECKING:
    from fairway_core.documents import Document
    from fairway_core.yaml_text import DataPath

    Point = dict[str, ParamValue]
    Listed = Mapping[str, Sequence[str] | None]
    Axes = dict[str, list[ParamValue] | Range]
    Drawn = Sequence[Mapping[str, ParamValue]]


def _generated(generator: Generator, folder: Path, listed: Listed) -> Iterator[Point]:
    key, value = generator.key, generator.value
    if key not in ("files", "python"):
        return _GENERATORS[key](value)
    from fairway_runner.jobs import sweep_sources  # most sweeps do not need it

    if key == "python":
        return sweep_sources.function_points(value, folder)
    if isinstance(value, str):
        return sweep_sources.file_points(sweep_sources.matching_files(value, folder))
    if value.input not in listed:
        message = f"the files of the input `{value.input}` are listed for a target"
        raise FieldError(message, "name it: --target NAME", ("input",))
    names = listed[value.input]
    if names is None:
        return sweep_sources.file_points([value.pattern])
    where = f"the input `{value.input}`"
    return sweep_sources.file_points(sweep_sources.matching_names(value.pattern, names, where))


def _combined(combine: Callable[..., Iterable[Any]], axes: Axes) -> Iterator[Point]:
    for values in combine(*map(values_of, axes.values())):
        yield dict(zip(axes, values, strict=True))


def _picks(section: Combinations | Permutations) -> Iterator[Point]:
    name, axis = section.parameter
    pick: Callable[..., Iterator[tuple[Scalar, ...]]] = itertools.permutations
    if isinstance(section, Combinations):
        again = section.replacement
        pick = itertools.combinations_with_replacement if again else itertools.combinations
    for values in pick(values_of(axis), section.length):
        yield {name: list(values)}


def _random(section: Random) -> Iterator[Point]:
    streams = {
        name: distribution.draws(section.seed, name)
        for name, distribution in section.parameters.items()
    }
    for _ in range(section.count):
        point = {}
        for name, values in streams.items():
            try:
                point[name] = next(values)
            except FieldError as error:
                raise FieldError(str(error), error.hint, (name, *error.path)) from None
        yield point


_GENERATORS: dict[str, Callable[[Any], Iterator[Point]]] = {
    "grid": partial(_combined, itertools.product),
    "zip": partial(_combined, zip),
    "combinations": _picks,
    "permutations": _picks,
    "random": _random,
    "repeat": lambda times: ({} for _ in range(times)),
    "shards": lambda section: (
        {"shard": number, "shards": section.of, "shard_input": section.input}
        for number in range(section.of)
    ),
}


def points(section: Sweep, folder: Path, listed: Listed, drawn: Drawn) -> Iterator[Point]:
    """Yields the values of each task's parameters, in order, computed on demand. Relative files and
    modules are looked up in `folder`; `listed` has the files of inputs by the inputs' names, and
    `drawn` the values drawn earlier for each task, which are not drawn again. Raises FieldError,
    its path below the section, if a generator has no points or the sweep has more than 100,000;
    UserError if the user's own function fails."""
    total = 0
    for path, generator in section.generators():
        before = total
        try:
            for point in _generated(generator, folder, listed):
                total += 1
                if total > MOST_POINTS:
                    break
                if generator.key == "random" and total <= len(drawn):
                    known = drawn[total - 1]
                    point = {name: known.get(name, value) for name, value in point.items()}
                yield point
        except FieldError as error:
            raise FieldError(str(error), error.hint, (*path, *error.path)) from None
        if total > MOST_POINTS:
            raise too_many(None, path)
        if total == before:
            message = f"`{generator.value}` yields no points"
            raise FieldError(message, "a sweep needs at least one", path)


class _Swept(Model):
    """Fields of a job file that a sweep needs; other fields may wait for a point's values."""

    model_config = ConfigDict(extra="ignore")

    params: dict[Identifier, ParamValue] = Field(default_factory=dict)
    sweep: Sweep | None = None


@dataclass(frozen=True)
class JobSweep:
    """A job file's sweep. All errors in it are raised as UserError."""

    section: Sweep
    params: dict[str, ParamValue]
    document: Document
    folder: Path
    listed: Listed
    drawn: Drawn

    def merged(self) -> Iterator[dict[str, ParamValue]]:
        """Yields all parameters of each task, one by one: the point's values override the job's."""
        inputs = self.document.data.get("inputs")
        known = list(inputs) if isinstance(inputs, dict) else []
        try:
            for path, generator in self.section.generators():
                if (name := _input_of(generator)) is not None and name not in known:
                    hint = did_you_mean(name, known) or f"add it: inputs: {{{name}: MOUNT:PATH}}"
                    raise FieldError(f"the job has no input `{name}`", hint, (*path, "input"))
            for point in points(self.section, self.folder, self.listed, self.drawn):
                yield {**self.params, **point}
        except FieldError as error:
            at = ("sweep", *error.path)
            message = f"`{'.'.join(map(str, at))}`: {error}"
            raise self.document.error("bad-sweep", at, message, error.hint) from None

    def inputs(self) -> Iterator[tuple[DataPath, str]]:
        """Yields the inputs whose files are points, each with the path of its name in the file."""
        for path, generator in self.section.generators():
            if generator.key == "files" and (name := _input_of(generator)) is not None:
                yield ("sweep", *path, "input"), name


def _input_of(generator: Generator) -> str | None:
    """Returns the input whose files make the points; None for other generators."""
    of_input = generator.key == "files" and not isinstance(generator.value, str)
    return str(generator.value.input) if of_input or generator.key == "shards" else None


def read_sweep(document: Document, folder: Path, listed: Listed, drawn: Drawn) -> JobSweep | None:
    """Returns the sweep of a job file, or None. Raises UserError at the errors of its section. The
    job's other fields are not checked: they may need the values of a point."""
    found = document.validate(_Swept)
    if found.sweep is None:
        return None
    return JobSweep(found.sweep, found.params, document, folder, listed, drawn)
