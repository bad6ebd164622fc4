"""From a job file to a `Job` whose values are all known.

Strings of a job file are Jinja templates over `params`, `target` and the job's own counts. Values
substituted into `command` are quoted for the shell.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairway_agent.quick import dataclass
from fairway_agent.records import section_of
from fairway_core.documents import Document, text_of
from fairway_core.findings import Finding, Location, UserError
from fairway_core.yaml_text import DataPath, parse_yaml, unfit_character
from fairway_runner.jobs import templating
from fairway_runner.jobs.job import Job
from fairway_runner.targets.lookup import processes_per_node

if TYPE_CHECKING:
    from fairway_core.target import Target
    from fairway_runner.jobs.job_fields import ParamValue
    from fairway_runner.jobs.sweep_points import JobSweep, Listed

_SHELL_FIELDS = {("command",), ("setup",), ("setup", "command"), ("finally", "command")}
_SHELL_FIELDS |= {("setup", "release")}
# Fields that provide the templates' values are taken literally.
LITERAL_FIELDS = {"params", "sweep", "target"}

_EXAMPLE = """add for example
sweep:
  points:
    - grid: {lr: [0.1, 0.01]}"""


@dataclass(frozen=True)
class JobFile:
    """A job file with the command line's `assignments`; `index` is that of its sweep's point."""

    document: Document
    folder: Path
    index: int = 0
    assignments: tuple[str, ...] = ()
    listed: Listed = field(default_factory=dict)
    """Files of inputs on a target, for the points of a sweep."""
    drawn: Sequence[Mapping[str, ParamValue]] = ()
    """Parameters of each task of an earlier run with the same sweep, which are not drawn again."""

    @cached_property
    def sweep(self) -> JobSweep | None:
        """Its sweep, or None; see `read_sweep`."""
        data = self.document.data
        if isinstance(data, dict) and "sweep" not in data:
            return None
        from fairway_runner.jobs.sweep_points import read_sweep

        return read_sweep(self.document, self.folder, self.listed, self.drawn)

    def require_sweep(self) -> JobSweep:
        """Returns its sweep. Raises UserError if it has none."""
        from fairway_core.suggestions import nearest

        self._require_single()
        if (sweep := self.sweep) is None:
            data = self.document.data
            near = None if "sweep" in data else nearest("sweep", data)
            hint = f"did you mean `sweep` by `{near}`?" if near else _EXAMPLE
            raise UserError.of("no-sweep", f"{self.document.file}: the job has no sweep", hint)
        return sweep

    def _require_single(self) -> None:
        if has_steps(self.document.data):
            location = self.document.location(("steps",), of_key=True)
            hint = "`fairway submit` runs them all; put one step's job into a file of its own"
            finding = Finding("several-steps", "this needs a single job", hint, location=location)
            raise UserError([finding])

    def tasks(self) -> Iterator[JobFile]:
        """Yields itself, or a job file for each point of its sweep, with its values in `params`."""
        data = self.document.data
        sweep = self.sweep if isinstance(data, dict) else None
        if sweep is None:
            yield self
            return
        rest = {key: value for key, value in data.items() if key != "sweep"}
        for index, params in enumerate(sweep.merged()):
            document = replace(self.document, data={**rest, "params": params})
            yield replace(self, document=document, index=index)

    def resolve(self, target: Target) -> Job:
        """Returns the job for this target. Raises UserError with the line of each error in it."""
        data = self.document.data
        if isinstance(data, dict) and "clusters" in data and "command" not in data:
            message = "this is an environment file: it has `clusters:`"
            hint = f"check it with: fairway check {self.document.file}; a job file has `command:`"
            location = self.document.location(("clusters",), of_key=True)
            raise UserError([Finding("not-a-job", message, hint, location=location)])
        self._require_single()
        if not isinstance(data, dict) or not isinstance(data.get("params", {}), dict):
            return self.document.validate(Job)
        context = self._context(target)
        resolved = {
            key: value if key in LITERAL_FIELDS else self._rendered(value, (key,), context)
            for key, value in data.items()
        }
        if resolved.get("processes_per_node") == "gpus":
            own = [resolved[key] for key in ("gpus", "cores") if isinstance(resolved.get(key), int)]
            resolved["processes_per_node"] = own[0] if own else processes_per_node(target)
        return replace(self.document, data=resolved).validate(Job)

    def field(self, path: DataPath, target: Target) -> Any:
        """Returns the value at a path, rendered with the job's own `params`; None if unset."""
        value = self.document.data
        for step in path:
            if not isinstance(value, dict) or step not in value:
                return None
            value = value[step]
        return self._rendered(value, path, self._context(target))

    def _context(self, target: Target) -> dict[str, Any]:
        data = self.document.data
        facts = {"name": target.name, "engine": target.engine, "vm_size": target.vm_size}
        counts = {key: Job.model_fields[key].default for key in ("nodes", "processes_per_node")}
        return {
            "params": templating.Names("params", data.get("params", {})),
            "target": templating.Names("target", facts),
            "sweep": templating.Names("sweep", {"index": self.index}),
            **{key: data.get(key, default) for key, default in counts.items()},
            **{key: data[key] for key in ("name",) if key in data},
        }

    def _rendered(self, value: Any, path: DataPath, context: Mapping[str, Any]) -> Any:
        if isinstance(value, dict):
            return {k: self._rendered(v, (*path, k), context) for k, v in value.items()}
        if isinstance(value, list):
            return [self._rendered(v, (*path, i), context) for i, v in enumerate(value)]
        if not isinstance(value, str) or not any(mark in value for mark in ("{{", "{%", "{#")):
            return value
        shell = path in _SHELL_FIELDS
        environment = templating.shell_environment() if shell else templating.text_environment()
        try:
            text = templating.render(templating.compile_text(environment, value), context)
            if character := unfit_character(text):
                raise templating.TemplateFault(f"this makes the character {character}", 1)
        except templating.TemplateFault as fault:
            raise self._fault(fault, path) from None
        with suppress(UserError):  # a field that is not text takes a number or a boolean
            return text if _is_text(path) else parse_yaml(text, "").data
        return text

    def _fault(self, fault: templating.TemplateFault, path: DataPath) -> UserError:
        location, lines = self.document.location(path), self.document.text.lines
        # The text of a block scalar starts on the line below its `|` or `>`.
        block = location.text[location.column - 1 :].startswith(("|", ">"))
        line = location.line + fault.line - (0 if block else 1)
        if location.file == self.document.file and location.line != line <= len(lines):
            location = Location.of_line(location.file, line, lines[line - 1])
        location = templating.expression_of(fault, location)
        hint = fault.hint or _variable_hint(location)
        return UserError(
            [Finding("bad-template", str(fault), hint, ".".join(map(str, path)), location=location)]
        )


@cache
def _is_text(path: DataPath) -> bool:
    """Returns True if a field takes any text, or is unknown; looked up once for all tasks."""
    from fairway_core.annotations import annotations_at  # most jobs have no templates

    annotations = annotations_at(Job, path)
    return str in annotations or not annotations


def _variable_hint(location: Location) -> str:
    """Returns the replacement for `${{ inputs.NAME }}`, as other programs' jobs write it."""
    named = re.match(r"\{\{-?\s*(input|output)s\.(\w+)", location.text[location.column - 1 :])
    if named is None:
        return ""
    variable = f"FAIRWAY_{named[1].upper()}_{named[2].upper()}"
    return f"a directory is ${variable} in the shell; a value is {{{{ params.{named[2]} }}}}"


def has_steps(data: Any) -> bool:
    return isinstance(data, dict) and "steps" in data


def sweeps_files(data: Any) -> bool:
    """Returns True if a job's sweep seems to make points of an input's files, by its data alone."""
    points = section_of(data, "sweep").get("points")
    generators = points if isinstance(points, list) else [points]
    return any(
        isinstance(each, dict) and isinstance(each.get("files"), dict) for each in generators
    )


def typed_by(data: Any) -> type[Job]:
    """Returns the model with the types of the fields that `-s` may set in a job's file."""
    if not has_steps(data):
        return Job
    from fairway_runner.jobs.steps import Typed

    return Typed


def load_job(file: str | Path, overrides: Sequence[str] = ()) -> JobFile:
    """Reads a job file and sets `KEY=VALUE` overrides over it.

    >>> job = load_job("examples/digits/job.yaml", ["nodes=3"])  # doctest: +SKIP
    """
    text, path = text_of(Path(file)), Path(file)
    first = text.partition("\n")[0]
    if path.suffix in (".py", ".sh") or first.startswith("#!"):
        program = "python" if path.suffix == ".py" or "python" in first else "bash"
        hint = "write a job file beside it, such as job.yaml, and submit that:\n"
        hint += f"  name: my-job\n  template: plain\n  command: {program} {shlex.quote(path.name)}"
        if "#SBATCH" in text:
            hint += "\nits #SBATCH lines are fields there: `nodes: 2`, `timeout: 1h`"
        raise UserError.of("not-a-job", f"{path}: this is a program, and not a job file", hint)
    return job_of_text(text, str(file), path.resolve().parent, overrides)


def job_of_text(text: str, file: str, folder: Path, overrides: Sequence[str] = ()) -> JobFile:
    """Parses a job from a text in place of the contents of `file`, in `folder`."""
    parsed = parse_yaml(text, file)
    document = Document(parsed, parsed.data).override(overrides, typed_by(parsed.data))
    return JobFile(document, folder, assignments=tuple(overrides))
