"""Jobs whose code was sent to a server: what of them is known, and what they do not have there."""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fairway_core.findings import UserError
from fairway_runner.jobs.confined import is_confined

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path


@dataclass(frozen=True)
class Origin:
    """Where sent code lies for as long as its job is looked at, and what git said of it where it
    came from."""

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
    """What git said of the code, of sent code: git itself is not asked here, since a folder may be
    a repository whose settings are programs."""
    origin = _origin.get()
    return None if origin is None else origin.git


@contextmanager
def sent_before(facts: Mapping[str, Any], snapshot: Path) -> Iterator[None]:
    """The same for the snapshot of an earlier run, whose origin has these facts."""
    if facts.get("sent") is not True:
        yield
        return
    with sent(Origin(snapshot.resolve(), facts.get("git") or {})):
        yield


def is_own(path: Path) -> bool:
    """Whether templates may be taken from there: not from sent code, for those who run none on this
    machine."""
    origin = _origin.get()
    is_sent = origin is not None and path.resolve().is_relative_to(origin.root)
    return not (is_sent and is_confined())


def require_own_template(file: Path) -> None:
    """UserError for a template that was sent, of those who run no code on this machine."""
    if not is_own(file):
        hint = "use one of `fairway templates`, or ask for the role Operator"
        message = "your role does not let you send templates"
        raise UserError.of("missing-role", message, hint)


def require_lasting(directory: str) -> None:
    """UserError for checkpoints beside the job's file, where that was sent."""
    if _origin.get() is not None:
        message = (
            f"`checkpoint.directory`: `{directory}` would be in the copy of the code that was sent"
        )
        hint = "write an absolute path on the server's machine, or MOUNT:PATH"
        raise UserError.of("bad-value", message, hint)
