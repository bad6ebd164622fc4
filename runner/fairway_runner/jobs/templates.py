"""Launchers' templates: where they lie, how one is found by its name, what it says of itself.

A template begins with a Jinja comment that holds a YAML mapping: a `description` of one
sentence, under `needs` the programs that must be on the main host's PATH, under `options`
what a job may set, and under `example` the fields of a job that uses it.
"""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path
from typing import Any

from pydantic import Field

from fairway_core.documents import Document, FieldError, Model
from fairway_core.findings import UserError
from fairway_core.suggestions import did_you_mean
from fairway_core.yaml_text import parse_yaml
from fairway_runner.engines.capabilities import ENGINES
from fairway_runner.jobs.params import Identifier
from fairway_runner.jobs.template_options import Option

SUFFIX = ".sh.j2"


def template_paths(job_folder: Path) -> tuple[Path, ...]:
    """The folders that are searched, in order: the user's, the repository's, the wheel's."""
    package = Path(__file__).resolve().parents[1]
    folders = (
        job_folder / "job_templates",
        Path.cwd() / "job_templates",
        package.parent.parent / "job_templates",
        package / "job_templates",
    )
    return tuple(dict.fromkeys(folder for folder in folders if folder.is_dir()))


def find_template(name: str, job_folder: Path) -> Path:
    """The template's file: a plain name in one of the folders, or a path below the job's.

    Raises FieldError for a name that leaves its folder or that is nowhere.
    """
    if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}", name):
        return _by_name(name, job_folder)
    root = job_folder.resolve()
    try:
        path = (root / name).resolve()
        exists = path.is_file()
    except (OSError, RuntimeError, ValueError):  # no name of a file, or a loop of links
        raise FieldError(f"`{name[:60]}` cannot be the name of a file", _LIST) from None
    if Path(name).is_absolute() or not path.is_relative_to(root):
        raise FieldError(
            f"the template `{name}` is outside of the job's folder",
            "put it beside the job file, or into job_templates/ and use its name alone",
        )
    if not path.name.endswith(SUFFIX):
        raise FieldError(
            f"`{name}` does not name a template", f"a template's name ends in {SUFFIX}"
        )
    if not exists:
        known = [str(each.relative_to(root)) for each in path.parent.glob("*" + SUFFIX)]
        message = f"there is no template `{name}` in {job_folder}"
        raise FieldError(message, did_you_mean(name, known) or _LIST)
    return path


_LIST = "list them with: fairway templates"


_ENGINE = "`{}` is a kind of target, not a template: fairway submit JOB --target NAME"
_PLAIN = "use `template: plain`, which runs the command as it is"
# What people name who come from elsewhere.
_FOREIGN = {
    **dict.fromkeys(("mpi", "mpirun", "mpiexec"), "use `openmpi`, `mpich` or `intelmpi`"),
    **dict.fromkeys(("pytorch", "ddp", "accelerate"), "use `torchrun`"),
    **dict.fromkeys(("sbatch", "srun"), "submit to a target with Slurm: fairway targets list"),
    **{engine: _ENGINE.format(engine) for engine in ENGINES},
    **dict.fromkeys(("python", "bash", "shell", "none"), _PLAIN),
}


def _by_name(name: str, job_folder: Path) -> Path:
    for folder in template_paths(job_folder):
        path = folder / (name + SUFFIX)
        if path.is_file():
            return path
    known = all_templates(job_folder)
    hint = _FOREIGN.get(name) or did_you_mean(name, known) or _LIST
    raise FieldError(f"there is no template `{name}`", hint)


def all_templates(job_folder: Path) -> dict[str, Path]:
    """Every template that a job in that folder can name; the first folder wins, and its come
    first, in the order of their names."""
    found: dict[str, Path] = {}
    for folder in template_paths(job_folder):
        for path in sorted(folder.glob("[!_]*" + SUFFIX)):
            found.setdefault(path.name.removesuffix(SUFFIX), path)
    return found


def template_source(file: Path) -> str:
    """The template's text; UserError where it cannot be read."""
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError.of(
            "bad-template", f"{file}: cannot be read: {error}", f"ls -l {file}"
        ) from None


class FrontMatter(Model):
    """What a template says of itself."""

    description: str
    needs: tuple[str, ...] = ()
    options: dict[Identifier, Option] = Field(default_factory=dict)
    example: dict[str, Any] = Field(default_factory=dict)


@lru_cache(maxsize=32)  # a sweep renders the same template for each of its points
def front_matter(file: Path, source: str) -> FrontMatter:
    """The mapping in the template's first comment; UserError where it is not one."""
    comment = re.match(r"\s*\{#(.*?)#\}", source, re.DOTALL)
    if comment is None:
        hint = "begin it with a comment such as {# description: what it launches #}"
        raise UserError.of("bad-template", f"{file}: the template has no description", hint)
    # The lines before the comment's text keep their number, so that errors point right.
    before = source[: comment.start(1)]
    text = "\n" * before.count("\n") + comment.group(1)
    parsed = parse_yaml(text, str(file))
    return Document(parsed, parsed.data).validate(FrontMatter)
