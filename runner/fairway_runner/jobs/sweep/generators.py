"""The points of each kind of generator, one at a time."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from fairway_core.documents import FieldError
from fairway_runner.jobs.sweep.axes import values_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from fairway_runner.jobs.params import ParamValue, Scalar
    from fairway_runner.jobs.sweep.axes import Range
    from fairway_runner.jobs.sweep.models import (
        Combinations,
        FilesOfInput,
        Generator,
        Permutations,
        Random,
        Shards,
    )

    Point = dict[str, ParamValue]
    # None for an input whose files nobody has asked for: one stands for them all.
    Listed = Mapping[str, Sequence[str] | None]
    Axes = dict[str, list[ParamValue] | Range]

NONE_LISTED: Listed = {}


def generate(generator: Generator, folder: Path, listed: Listed) -> Iterator[Point]:
    """The generator's points; FieldError where files, a function or a draw is at fault."""
    match generator.key:
        case "files":
            from fairway_runner.jobs.sweep.files import file_points

            return file_points(files_of(generator, folder, listed))
        case "python":
            from fairway_runner.jobs.sweep.functions import function_points

            return function_points(generator.value, folder)
    return _GENERATORS[generator.key](generator.value)


def files_of(generator: Generator, folder: Path, listed: Listed) -> Sequence[str]:
    """The files of a generator `files`; FieldError where there are none, or nobody has listed
    those of its input."""
    from fairway_runner.jobs.sweep.files import matching_files, matching_names

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


def _repeat(times: int) -> Iterator[Point]:
    for _ in range(times):
        yield {}


_GENERATORS: dict[str, Callable[[Any], Iterator[Point]]] = {
    "grid": _grid,
    "zip": _zip,
    "combinations": _combinations,
    "permutations": _permutations,
    "random": _random,
    "repeat": _repeat,
    "shards": _shards,
}
