"""From a sweep's section to its points."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairway_core.documents import FieldError
from fairway_runner.jobs.sweep.axes import MOST_POINTS
from fairway_runner.jobs.sweep.generators import NONE_LISTED, files_of, generate
from fairway_runner.jobs.sweep.models import too_many

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from fairway_runner.jobs.params import ParamValue
    from fairway_runner.jobs.sweep.generators import Listed
    from fairway_runner.jobs.sweep.models import Sweep


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
    """The number of points, without making them; None where a function has to be run.

    Looks for files. Raises FieldError as `points` does.
    """
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
