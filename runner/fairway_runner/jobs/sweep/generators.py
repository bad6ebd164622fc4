"""The points of a sweep: each kind of generator, and how they combine."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from fairway_core.documents import FieldError
from fairway_runner.jobs.sweep.models import too_many
from fairway_runner.jobs.sweep.values import MOST_POINTS, values_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from fairway_runner.jobs.job_fields import ParamValue, Scalar
    from fairway_runner.jobs.sweep.models import (
        Combinations,
        FilesOfInput,
        Generator,
        Permutations,
        Random,
        Shards,
        Sweep,
    )
    from fairway_runner.jobs.sweep.values import Range

    Point = dict[str, ParamValue]
    Listed = Mapping[str, Sequence[str] | None]
    Axes = dict[str, list[ParamValue] | Range]


NONE_LISTED: Listed = {}


def generate(generator: Generator, folder: Path, listed: Listed) -> Iterator[Point]:
    """The generator's points; FieldError where files, a function or a draw is at fault."""
    match generator.key:
        case "files":
            from fairway_runner.jobs.sweep.sources import file_points

            return file_points(files_of(generator, folder, listed))
        case "python":
            from fairway_runner.jobs.sweep.sources import function_points

            return function_points(generator.value, folder)
    return _GENERATORS[generator.key](generator.value)


def files_of(generator: Generator, folder: Path, listed: Listed) -> Sequence[str]:
    """The files of a generator `files`; FieldError for none, or for an input that is not listed."""
    from fairway_runner.jobs.sweep.sources import matching_files, matching_names

    if isinstance(generator.value, str):
        return matching_files(generator.value, folder)
    section: FilesOfInput = generator.value
    if section.input not in listed:
        message = f"the files of the input `{section.input}` are listed for a target"
        raise FieldError(message, "name it: --target NAME", ("input",))
    names = listed[section.input]
    if names is None:
        return [section.pattern]
    return matching_names(section.pattern, names, f"the input `{section.input}`")


def _grid(axes: Axes) -> Iterator[Point]:
    for values in itertools.product(*map(values_of, axes.values())):
        yield dict(zip(axes, values, strict=True))


def _zip(axes: Axes) -> Iterator[Point]:
    for values in zip(*map(values_of, axes.values()), strict=True):
        yield dict(zip(axes, values, strict=True))


def _combinations(section: Combinations) -> Iterator[Point]:
    name, axis = section.parameter
    values = values_of(axis)
    picks: Iterator[tuple[Scalar, ...]]
    if section.replacement:
        picks = itertools.combinations_with_replacement(values, section.length)
    else:
        picks = itertools.combinations(values, section.length)
    for pick in picks:
        yield {name: list(pick)}


def _permutations(section: Permutations) -> Iterator[Point]:
    name, axis = section.parameter
    for pick in itertools.permutations(values_of(axis), section.length):
        yield {name: list(pick)}


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


def _shards(section: Shards) -> Iterator[Point]:
    for number in range(section.of):
        yield {"shard": number, "shards": section.of, "shard_input": section.input}


_GENERATORS: dict[str, Callable[[Any], Iterator[Point]]] = {
    "grid": _grid,
    "zip": _zip,
    "combinations": _combinations,
    "permutations": _permutations,
    "random": _random,
    "repeat": lambda times: ({} for _ in range(times)),
    "shards": _shards,
}


def points(
    section: Sweep,
    folder: Path,
    listed: Listed = NONE_LISTED,
    drawn: Sequence[Mapping[str, ParamValue]] = (),
) -> Iterator[dict[str, ParamValue]]:
    """The values of each task's parameters, in order, made when they are asked for.

    `folder` is where relative files and modules are looked for, `listed` has the files of inputs
    by the inputs' names, and `drawn` what was drawn before for each task, which is not drawn
    again. Raises FieldError, its path below the section, where a generator has no points or the
    sweep has more than 100,000; UserError where the user's own function fails.
    """
    total = 0
    for path, generator in section.generators():
        before = total
        try:
            for point in generate(generator, folder, listed):
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


def count(section: Sweep, folder: Path, listed: Listed = NONE_LISTED) -> int | None:
    """The number of points, without making them; None where a function has to be run. Looks for
    files. Raises FieldError as `points` does."""
    total = 0
    for path, generator in section.generators():
        if generator.key == "python":
            return None
        number = generator.count
        if number is None:
            try:
                number = len(files_of(generator, folder, listed))
            except FieldError as error:
                raise FieldError(str(error), error.hint, (*path, *error.path)) from None
        total += number
        if total > MOST_POINTS:
            raise too_many(total, path)
    return total
