"""The sweep of a job file, with its faults shown at the file's lines."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pydantic import ConfigDict, Field

from fairway_core.documents import Document, FieldError, Model
from fairway_core.findings import Finding, UserError
from fairway_core.suggestions import did_you_mean, nearest
from fairway_runner.jobs.job_fields import Identifier, ParamValue
from fairway_runner.jobs.sweep.generators import count, points
from fairway_runner.jobs.sweep.models import Sweep

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from fairway_core.yaml_text import DataPath
    from fairway_runner.jobs.sweep.generators import Listed
    from fairway_runner.jobs.sweep.models import Generator


_EXAMPLE = """add for example
sweep:
  points:
    - grid: {lr: [0.1, 0.01]}"""


class _Swept(Model):
    """Fields of a job file that a sweep needs; other fields may wait for a point's values."""

    model_config = ConfigDict(extra="ignore")

    params: dict[Identifier, ParamValue] = Field(default_factory=dict)
    sweep: Sweep | None = None


@dataclass(frozen=True)
class JobSweep:
    """A job file's sweep. All that is wrong with it is raised as UserError."""

    section: Sweep
    params: dict[str, ParamValue]
    folder: Path
    document: Document
    listed: Listed = field(default_factory=dict)
    """The files of inputs, as paths below them, by the inputs' names."""
    drawn: Sequence[Mapping[str, ParamValue]] = ()
    """The parameters of each task of a run that had the same sweep."""

    def points(self) -> Iterator[dict[str, ParamValue]]:
        """The values that each task sets over the job's parameters, made one at a time."""
        with self._at_lines():
            self._require_inputs()
            yield from points(self.section, self.folder, self.listed, self.drawn)

    def count(self) -> int | None:
        """The number of points; None where a function has to be run to know it."""
        with self._at_lines():
            return count(self.section, self.folder, self.listed)

    def merged(self) -> Iterator[dict[str, ParamValue]]:
        """All parameters of each task: the point's values over the job's own."""
        for point in self.points():
            yield {**self.params, **point}

    def inputs(self) -> Iterator[tuple[DataPath, str]]:
        """The inputs whose files are points, each with the path of its name in the document."""
        for path, generator in self.section.generators():
            if generator.key == "files" and (name := _input_of(generator)) is not None:
                yield ("sweep", *path, "input"), name

    def _require_inputs(self) -> None:
        """FieldError for files or shares of an input that the job does not have."""
        inputs = self.document.data.get("inputs")
        known = list(inputs) if isinstance(inputs, dict) else []
        for path, generator in self.section.generators():
            if (name := _input_of(generator)) is not None and name not in known:
                hint = did_you_mean(name, known) or f"add it: inputs: {{{name}: MOUNT:PATH}}"
                raise FieldError(f"the job has no input `{name}`", hint, (*path, "input"))

    @contextmanager
    def _at_lines(self) -> Iterator[None]:
        try:
            yield
        except FieldError as error:
            path = ("sweep", *error.path)
            dotted = ".".join(map(str, path))
            location = self.document.location(path)
            message = f"`{dotted}`: {error}"
            finding = Finding("bad-sweep", message, error.hint, dotted, location=location)
            raise UserError([finding]) from None


def _input_of(generator: Generator) -> str | None:
    """The input whose files make the points; None where it is none's."""
    of_input = generator.key == "files" and not isinstance(generator.value, str)
    return str(generator.value.input) if of_input or generator.key == "shards" else None


def read_sweep(
    document: Document,
    folder: Path,
    listed: Listed | None = None,
    drawn: Sequence[Mapping[str, ParamValue]] = (),
) -> JobSweep | None:
    """The sweep of a job file in that folder, or None where it has none; UserError at the faults of
    its section. `listed` has the files of inputs, and `drawn` is as in `JobSweep`. The job's other
    fields are not looked at: they may need the values of a point."""
    if isinstance(document.data, dict) and "sweep" not in document.data:
        return None
    found = document.validate(_Swept)
    if found.sweep is None:
        return None
    return JobSweep(found.sweep, found.params, folder, document, listed or {}, drawn)


def require_sweep(document: Document, folder: Path, listed: Listed | None = None) -> JobSweep:
    """The job file's sweep, as `read_sweep` has it; UserError where it has none."""
    sweep = read_sweep(document, folder, listed)
    if sweep is None:
        near = None if "sweep" in document.data else nearest("sweep", document.data)
        hint = f"did you mean `sweep` by `{near}`?" if near else _EXAMPLE
        raise UserError.of("no-sweep", f"{document.file}: the job has no sweep", hint)
    return sweep
