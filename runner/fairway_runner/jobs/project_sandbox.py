"""Uploaded jobs of people without an account here: no code runs, and only the project is read."""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from fnmatch import fnmatch
from typing import TYPE_CHECKING, Any

from fairway_core.findings import UserError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path


# What no job needs from a folder: version control, environments, caches, earlier runs.
NEVER: tuple[str, ...] = (
    *(".git", ".fairway", ".venv", "venv", "__pycache__", "*.pyc", ".ipynb_checkpoints"),
    *("node_modules", "cdktf.out", ".terraform", ".mypy_cache", ".pytest_cache", ".ruff_cache"),
)

_root: ContextVar[Path | None] = ContextVar("root", default=None)


@contextmanager
def confined(root: Path) -> Iterator[None]:
    """Jobs that are looked at inside have the files of the project at `root` alone."""
    before = _root.set(root.resolve())
    try:
        yield
    finally:
        _root.reset(before)


def is_code_of(root: Path, path: Path) -> bool:
    """True for the project's folder, and for paths in it that jobs may read: outputs of runs were
    written elsewhere, and `.git` and `.fairway` have secrets."""
    root, path = root.resolve(), path.resolve()
    if not path.is_relative_to(root):
        return False
    return not any(fnmatch(part, each) for part in path.relative_to(root).parts for each in NEVER)


def require_code(folder: Path) -> None:
    """UserError for a folder of code that is not the project's, where that is asked for."""
    root = _root.get()
    if root is not None and not is_code_of(root, folder):
        raise _refused("submit code from elsewhere", "keep `code.path` inside of the project")


def require_inside(link: Path, path: str) -> None:
    """UserError for a link, called `path`, that leads out of the project, where it may not."""
    root = _root.get()
    if root is not None and not is_code_of(root, link):
        hint = "let it lead into the project, or leave it out, by `code.exclude` or the pattern"
        raise _refused(f"follow the link {path}, which leads out of the project's code", hint)


def require_no_function() -> None:
    """UserError where no code of a job runs on this machine."""
    if _root.get() is not None:
        hint = "write the points out, such as with `grid:`"
        raise _refused("run the `python:` of a sweep on the machine of the server", hint)


def require_relative(pattern: str) -> None:
    """UserError for files of the whole machine, where those of the project are wanted."""
    if _root.get() is not None and (pattern.startswith("/") or ".." in pattern.split("/")):
        hint = "begin in the folder of the job, and write no `..`"
        raise _refused("list files of the server outside of the project", hint)


def _refused(what: str, hint: str) -> UserError:
    message = f"your role does not let you {what}"
    return UserError.of("missing-role", message, f"{hint}, or ask for the role Operator")


@dataclass(frozen=True)
class Origin:
    """Where sent code lies while its job is looked at, and what git said of it at home."""

    root: Path
    git: Mapping[str, Any]


_origin: ContextVar[Origin | None] = ContextVar("origin", default=None)


@contextmanager
def sent(origin: Origin) -> Iterator[None]:
    """The jobs that are looked at inside have this code."""
    before = _origin.set(origin)
    try:
        yield
    finally:
        _origin.reset(before)


def known_git() -> Mapping[str, Any] | None:
    """Returns git's facts about sent code, from where it was sent: git is not run here, since a
    folder may be a repository whose settings are programs."""
    origin = _origin.get()
    return None if origin is None else origin.git


@contextmanager
def sent_before(facts: Mapping[str, Any], snapshot: Path) -> Iterator[None]:
    """Sets the origin of sent code for the snapshot of an earlier run by its provenance."""
    if facts.get("sent") is not True:
        yield
        return
    with sent(Origin(snapshot.resolve(), facts.get("git") or {})):
        yield


def is_own(path: Path) -> bool:
    """False for templates in sent code of people who may not run code on this machine."""
    origin = _origin.get()
    is_sent = origin is not None and path.resolve().is_relative_to(origin.root)
    return not (is_sent and _root.get() is not None)


def require_own_template(file: Path) -> None:
    """UserError for a template that was sent, of those who run no code on this machine."""
    if not is_own(file):
        hint = "use one of `fairway templates`, or ask for the role Operator"
        message = "your role does not let you send templates"
        raise UserError.of("missing-role", message, hint)


def require_lasting(directory: str) -> None:
    """UserError for checkpoints beside the job's file, where that was sent."""
    if _origin.get() is not None:
        copy = "the copy of the code that was sent"
        message = f"`checkpoint.directory`: `{directory}` would be in {copy}"
        hint = "write an absolute path on the server's machine, or MOUNT:PATH"
        raise UserError.of("bad-value", message, hint)
