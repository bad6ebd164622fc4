"""Findings of checks and parsers, and how they are printed.

A finding names what is wrong, where, and how to fix it. Errors that the user can
cause travel as `UserError`, which carries findings and the exit code; the command
line prints them and nothing else.
"""

from __future__ import annotations

import copy
import copyreg
import re
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Self

from fairway_agent.quick import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable

_NOT_SHOWN = "(not shown)"
_QUOTED = re.compile("`([^`]+)`")
# A longer line is shown as this many characters around the place that is meant.
_WINDOW = 120


class Severity(StrEnum):
    """Severity of a finding: an error stops what was asked for, a warning does not."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True)
class Location:
    """A location in a text file.

    `line` and `column` count from 1; `text` is the whole line without its end, and
    `length` the number of characters to underline.
    """

    file: str
    line: int
    column: int
    text: str
    length: int = 1

    @classmethod
    def of_line(cls, file: str, line: int, text: str) -> Self:
        """All of a line but its indentation."""
        column = len(text) - len(text.lstrip()) + 1
        return cls(file, line, column, text, max(1, len(text.strip())))

    @property
    def hidden(self) -> Self:
        """The line without its text, which may hold a secret."""
        return type(self)(self.file, self.line, 1, _NOT_SHOWN, len(_NOT_SHOWN))


@dataclass(frozen=True)
class Finding:
    """A mistake or a warning, with its location and a hint.

    `id` names the rule (`unknown-key`), `path` the field (`clusters.nd.size`), `message` tells
    what is wrong, `hint` how to fix it.
    """

    id: str
    message: str
    hint: str = ""
    path: str = ""
    severity: Severity = Severity.ERROR
    location: Location | None = None

    def __post_init__(self) -> None:
        """Keeps secrets that are quoted out of the message, wherever it is shown."""
        object.__setattr__(self, "message", _QUOTED.sub(_without_secret, self.message))

    @property
    def position(self) -> tuple[int, int]:
        """The line and the column in its file; zeros where it has none, which come first."""
        return (self.location.line, self.location.column) if self.location else (0, 0)


class UserError(Exception):
    """An error that the user can fix; printed as its findings, never as a traceback.

    As text it has each message and, below it, the hint.

    >>> raise UserError.of("no-such-file", "job.yaml: no such file", "fairway render JOB")
    Traceback (most recent call last):
    fairway_core.findings.UserError: job.yaml: no such file
      fairway render JOB
    """

    def __init__(self, findings: Iterable[Finding], *, exit_code: int = 2) -> None:
        self.findings = tuple(findings)
        self.exit_code = exit_code
        super().__init__("; ".join(finding.message for finding in self.findings))

    def __reduce__(self) -> tuple[Any, ...]:
        # As it is, also one of a subclass: it goes from one process to another.
        return copyreg.__newobj__, (type(self), *self.args), self.__dict__  # type: ignore[attr-defined]

    def __str__(self) -> str:
        lines = []
        for finding in self.findings:
            lines += [finding.message, *(f"  {line}" for line in finding.hint.splitlines())]
        return "\n".join(lines)

    def with_findings(self, findings: Iterable[Finding]) -> Self:
        """Returns an error of this class and exit code with other findings."""
        other = copy.copy(self)
        UserError.__init__(other, findings, exit_code=self.exit_code)
        return other

    @classmethod
    def of(cls, id: str, message: str, hint: str = "", *, exit_code: int = 2) -> UserError:  # noqa: A002
        """An error with one finding that has no location."""
        return cls([Finding(id=id, message=message, hint=hint)], exit_code=exit_code)


def finding_facts(finding: Finding) -> dict[str, str | int | None]:
    """One finding as plain data; its line and column count from 1, and are null where it has no
    location."""
    location = finding.location
    return {
        "id": finding.id,
        "severity": str(finding.severity),
        "path": finding.path,
        "message": finding.message,
        "hint": finding.hint,
        "file": location.file if location else None,
        "line": location.line if location else None,
        "column": location.column if location else None,
    }


def format_finding(finding: Finding) -> str:
    """The finding as a person reads it: location and message, the line with a caret, the hint.

    >>> location = Location("job.yaml", 3, 1, "comand: python train.py", 6)
    >>> print(format_finding(Finding("unknown-key", "unknown key", "did you mean `command`?",
    ...                              location=location)))
    job.yaml:3:1: error: unknown key [unknown-key]
        3 | comand: python train.py
          | ^^^^^^
      did you mean `command`?
    """
    location = finding.location
    first, *more = [line for line in finding.message.splitlines() if line.strip()] or [""]
    head = f"{finding.severity}: {printable(first)} [{printable(finding.id)}]"
    lines = [head]
    if location is not None:
        lines = [
            f"{printable(location.file)}:{location.line}:{location.column}: {head}",
            *excerpt(location),
        ]
    lines += [f"  {printable(line)}".rstrip() for line in (*more, *finding.hint.splitlines())]
    return "\n".join(lines)


def _tells_secret(text: str) -> bool:
    from fairway_core.secret_values import secrets_in, tells_secret  # few commands have a finding

    return tells_secret(text) or bool(secrets_in(text, tokens=True))


def _without_secret(quoted: re.Match[str]) -> str:
    return f"`{_NOT_SHOWN}`" if _tells_secret(quoted[1]) else quoted[0]


def excerpt(location: Location) -> list[str]:
    """The line, cut to a window around its column, and a caret under what is meant; nothing of a
    line that holds a secret, whatever the finding is about."""
    if _tells_secret(location.text):
        location = location.hidden
    start = max(0, location.column - 1 - _WINDOW // 2) if len(location.text) > _WINDOW else 0
    text = printable(location.text[start : start + _WINDOW])
    column = location.column - 1 - start
    # Tabs stay tabs, so that the caret stands under its character in any terminal.
    indent = "".join("\t" if character == "\t" else " " for character in text[:column])
    caret = "^" * max(1, min(location.length, len(text) - column))
    number = f"{location.line:>5}"
    return [f"{number} | {text}", f"{' ' * len(number)} | {indent}{caret}"]


def printable(text: str) -> str:
    """The text without the control characters that could move a terminal's cursor."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\t" else "\ufffd" for c in text)


def counted(count: int, noun: str) -> str:
    """A number of things in words.

    >>> counted(1, "file"), counted(12345, "file")
    ('1 file', '12,345 files')
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
