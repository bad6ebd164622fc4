"""Launchers' templates: lookup by name, front matter, options, and description."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from fairway_core.documents import Document, FieldError, Model, rule
from fairway_core.findings import Finding, UserError
from fairway_core.project_folder import find_project
from fairway_core.suggestions import did_you_mean
from fairway_core.yaml_text import parse_yaml
from fairway_runner.engines.capabilities import ENGINES
from fairway_runner.jobs.job_fields import Identifier, Scalar

_NAMES = {"int": "a whole number", "float": "a number", "text": "text", "bool": "true or false"}


class Option(Model):
    """One option of a template; without a `default` a job must set it.

    `choices` are the values of the type `choice`, which are text.

    >>> Option(type="choice", choices=("static", "c10d"), default="c10d", help="how").expected
    'one of `static`, `c10d`'
    """

    type: Literal["int", "float", "text", "bool", "choice"]
    help: str
    default: Scalar | None = None
    choices: tuple[str, ...] = ()

    @rule
    def _agrees_with_itself(self) -> None:
        if (self.type == "choice") != bool(self.choices):
            hint = "`choices` are for the type `choice` only"
            raise FieldError("the type and the choices do not fit", hint, ("type",))
        if self.default is not None and self.accept(self.default) is None:
            from fairway_core.validation import describe

            message = f"the default must be {self.expected}, found {describe(self.default)}"
            raise FieldError(message, "change the default, or the type", ("default",))

    @property
    def expected(self) -> str:
        """Description of a valid value."""
        if self.type == "choice":
            return "one of " + ", ".join(f"`{choice}`" for choice in self.choices)
        return _NAMES[self.type]

    def accept(self, value: Scalar) -> Scalar | None:
        """Returns the value as one of this option's type, or None if it is not. Text that holds a
        number or a boolean is converted: `{{ params.x }}` renders text."""
        if self.type in ("text", "choice"):
            fits = isinstance(value, str) and (self.type == "text" or value in self.choices)
            return value if fits else None
        if isinstance(value, str):
            value = _read(value)
        if self.type == "bool" or isinstance(value, bool):
            return value if self.type == "bool" and isinstance(value, bool) else None
        if self.type == "float" and isinstance(value, int | float):
            return float(value)
        return value if isinstance(value, int) else None


def resolve_options(
    given: Mapping[str, Scalar], declared: Mapping[str, Option], template: str, document: Document
) -> dict[str, Scalar]:
    """Returns every declared option with the job's value or its default. Raises UserError with a
    finding for each that is unknown, missing or of another type, at its line of the `document`."""
    unknown = [name for name in given if name not in declared]
    findings = [_unknown(name, declared, template, document) for name in unknown]
    values: dict[str, Scalar] = {}
    for name, option in declared.items():
        value = option.accept(given[name]) if name in given else option.default
        if value is not None:
            values[name] = value
        elif name in given:
            findings.append(_unfit(name, given[name], option, document))
        else:
            message = f"the template `{template}` needs the option `{name}`: {option.help}"
            hint = f"add it under `options:`, {option.expected}"
            location = document.location(())
            findings.append(Finding("missing-option", message, hint, "options", location=location))
    if findings:
        raise UserError(findings)
    return values


def _unknown(
    name: str, declared: Mapping[str, Option], template: str, document: Document
) -> Finding:
    hint = did_you_mean(name, declared) or f"see them with: fairway templates {template}"
    if not declared:
        hint = f"the template `{template}` has no options: remove it"
    message = f"the template `{template}` has no option `{name}`"
    return document.finding("unknown-option", ("options", name), message, hint, of_key=True)


def _unfit(name: str, value: Scalar, option: Option, document: Document) -> Finding:
    from fairway_core.validation import describe

    hint = ""
    if option.type == "choice":
        hint = did_you_mean(str(value), option.choices)
    elif option.type == "text":
        hint = f"put it in quotes: {document.quoted(('options', name), value)}"
    message = f"`options.{name}`: expected {option.expected}, found {describe(value)}"
    return document.finding("bad-option", ("options", name), message, hint)


def _read(text: str) -> Scalar:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return {"true": True, "false": False}.get(text, text)


SUFFIX = ".sh.j2"


def template_paths(job_folder: Path) -> tuple[Path, ...]:
    """Returns the folders to search, in order: the user's own, the repository's, the wheel's."""
    folders = (*own_folders(job_folder), *_SHIPPED)
    return tuple(dict.fromkeys(folder for folder in folders if folder.is_dir()))


def own_folders(job_folder: Path) -> tuple[Path, ...]:
    """Returns the folders for templates of the job's folder, of those above up to the project's,
    and of that."""
    project, job = find_project()[0], Path(os.path.abspath(job_folder))  # noqa: PTH100 - no links
    above = (each for each in job.parents if each.is_relative_to(project))
    return tuple(folder / "job_templates" for folder in (job, *above, project))


_PACKAGE = Path(__file__).resolve().parents[1]
_SHIPPED = (_PACKAGE.parent.parent / "job_templates", _PACKAGE / "job_templates")


def is_shipped(template: Path) -> bool:
    """Returns True for a template of Fairway's own."""
    return template.parent in _SHIPPED


def find_template(name: str, job_folder: Path) -> Path:
    """Returns the template's file: a plain name in one of the folders, or a path below the job's.
    Raises FieldError for a name that leaves its folder or does not exist."""
    if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}", name):
        for folder in template_paths(job_folder):
            path = folder / (name + SUFFIX)
            if path.is_file():
                return path
        hint = _FOREIGN.get(name) or did_you_mean(name, all_templates(job_folder)) or _LIST
        raise FieldError(f"there is no template `{name}`", hint)
    root = job_folder.resolve()
    try:
        path = (root / name).resolve()
        exists = path.is_file()
    except (OSError, RuntimeError, ValueError):  # invalid file name, or a loop of links
        raise FieldError(f"`{name[:60]}` cannot be the name of a file", _LIST) from None
    if Path(name).is_absolute() or not path.is_relative_to(root):
        hint = "put it beside the job file, or into job_templates/ and use its name alone"
        raise FieldError(f"the template `{name}` is outside of the job's folder", hint)
    if not path.name.endswith(SUFFIX):
        hint = f"a template's name ends in {SUFFIX}"
        raise FieldError(f"`{name}` does not name a template", hint)
    if not exists:
        names = [str(each.relative_to(root)) for each in path.parent.glob("*" + SUFFIX)]
        message = f"there is no template `{name}` in the job's folder"
        raise FieldError(message, did_you_mean(name, names) or _LIST)
    return path


_LIST = "list them with: fairway templates"

_ENGINE = "`{}` is a kind of target, not a template: fairway submit JOB --target NAME"
_PLAIN = "use `template: plain`, which runs the command as it is"
# Names that users of other tools expect.
_FOREIGN = {
    **dict.fromkeys(("mpi", "mpirun", "mpiexec"), "use `openmpi`, `mpich` or `intelmpi`"),
    **dict.fromkeys(("pytorch", "ddp", "accelerate"), "use `torchrun`"),
    **dict.fromkeys(("sbatch", "srun"), "submit to a target with Slurm: fairway targets list"),
    **{engine: _ENGINE.format(engine) for engine in ENGINES},
    **dict.fromkeys(("python", "bash", "shell", "none"), _PLAIN),
}


def all_templates(job_folder: Path) -> dict[str, Path]:
    """Returns every template that a job in that folder can name; the first of a name wins."""
    found: dict[str, Path] = {}
    for folder in template_paths(job_folder):
        for path in filter(Path.is_file, sorted(folder.glob("[!_]*" + SUFFIX))):
            found.setdefault(path.name.removesuffix(SUFFIX), path)
    return found


def template_source(file: Path) -> str:
    """Returns the template's text. Raises UserError if it cannot be read."""
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        message = f"{file}: cannot be read: {error}"
        raise UserError.of("bad-template", message, f"ls -l {file}") from None


class FrontMatter(Model):
    """Front matter of a template."""

    description: str
    needs: tuple[str, ...] = ()
    options: dict[Identifier, Option] = Field(default_factory=dict)
    example: dict[str, Any] = Field(default_factory=dict)


@lru_cache(maxsize=32)  # a sweep renders the same template for all its points
def front_matter(file: Path, source: str) -> FrontMatter:
    """Returns the mapping in the template's first comment. Raises UserError if it is none."""
    comment = re.match(r"\s*\{#(.*?)#\}", source, re.DOTALL)
    if comment is None:
        hint = "begin it with a comment such as {# description: what it launches #}"
        raise UserError.of("bad-template", f"{file}: the template has no description", hint)
    before = source[: comment.start(1)].split("\n")
    try:
        # Line numbers are kept, so that errors point to the right line.
        parsed = parse_yaml("\n" * (len(before) - 1) + comment.group(1), str(file))
        return Document(parsed, parsed.data).validate(FrontMatter)
    except UserError as error:
        found = (_in_template(each, before, source) for each in error.findings)
        raise error.with_findings(found) from None


def _in_template(finding: Finding, before: Sequence[str], source: str) -> Finding:
    """Returns a finding about the first comment at its place in the template; `before` are the
    lines up to the text of the comment."""
    at = finding.location
    if at is None:
        return finding
    column = at.column + (len(before[-1]) if at.line == len(before) else 0)
    text = source.split("\n")[at.line - 1]
    return replace(finding, location=replace(at, column=column, text=text))


def template_list(folder: Path) -> list[dict[str, str]]:
    """Returns name, description and folder of every template that a job in `folder` can name; the
    description of an unreadable one is the reason."""
    listed = []
    for name, file in all_templates(folder).items():
        try:
            description = front_matter(file, template_source(file)).description
        except UserError as error:
            description = f"cannot be used: {error}"
        listed.append({"name": name, "description": description, "folder": str(file.parent)})
    return listed


def template_facts(name: str, folder: Path) -> dict[str, Any]:
    """Returns a template's description, needs and options, and a job file that uses it. Raises
    UserError if a job in `folder` can name no such template."""
    try:
        file = find_template(name, folder)
    except FieldError as error:
        raise UserError.of("unknown-template", str(error), error.hint) from None
    front = front_matter(file, template_source(file))
    job: dict[str, Any] = {"name": "example", "template": name} | front.example
    job.setdefault("command", "python train.py")
    if front.options:
        job["options"] = {
            key: option.default if option.default is not None else f"<{option.type}>"
            for key, option in front.options.items()
        }
    return {
        "name": name,
        "file": str(file),
        "description": front.description,
        "needs": list(front.needs),
        "options": {
            key: option.model_dump(exclude_defaults=True, mode="json")
            for key, option in front.options.items()
        },
        # JSON values are valid YAML.
        "job": "".join(f"{key}: {_flow(value)}\n" for key, value in job.items()),
    }


def _flow(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_flow(each)}" for key, each in value.items()) + "}"
    words = isinstance(value, str) and re.fullmatch(r"[A-Za-z./][\w./ -]*", value)
    # YAML does not parse these as text.
    if words and value.lower() not in ("true", "false", "null", "yes", "no", "on", "off", "."):
        return str(value)
    return json.dumps(value)
