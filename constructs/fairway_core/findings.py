"""Findings of checks and parsers, and their text format.

A finding has a fault, its location, and how to fix it. Errors that the user can cause are raised as
`UserError`, with findings and the exit code; the command line prints only those.
"""

from __future__ import annotations

import copy
import copyreg
import re
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NoReturn, Self, TypeVar

from fairway_agent.quick import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

T = TypeVar("T")
_NOT_SHOWN = "(not shown)"
_QUOTED = re.compile("`([^`]+)`")
# Longer lines are cut to this many characters around the location.
_WINDOW = 120


class Severity(StrEnum):
    """Severity of a finding: an error stops the command, a warning does not."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True)
class Location:
    """A location in a text file: `line` and `column` count from 1, `text` is the complete line
    without its end, and `length` the number of characters to underline."""

    file: str
    line: int
    column: int
    text: str
    length: int = 1

    @classmethod
    def of_line(cls, file: str, line: int, text: str) -> Self:
        """Returns the location of a complete line except its indentation."""
        column = len(text) - len(text.lstrip()) + 1
        return cls(file, line, column, text, max(1, len(text.strip())))

    @property
    def hidden(self) -> Self:
        """The location without the line's text, which may contain a secret."""
        return type(self)(self.file, self.line, 1, _NOT_SHOWN, len(_NOT_SHOWN))


@dataclass(frozen=True)
class Finding:
    """An error or a warning: `id` names the rule (`unknown-key`), `path` the field
    (`clusters.nd.size`), `message` describes the fault, and `hint` how to fix it."""

    id: str
    message: str
    hint: str = ""
    path: str = ""
    severity: Severity = Severity.ERROR
    location: Location | None = None

    def __post_init__(self) -> None:
        """Removes quoted secrets from the message, and line breaks from quoted values, wherever it
        is shown."""
        object.__setattr__(self, "message", _QUOTED.sub(_harmless, self.message))

    @property
    def position(self) -> tuple[int, int]:
        """The line and column in its file; zeros, which sort first, without a location."""
        return (self.location.line, self.location.column) if self.location else (0, 0)


class UserError(Exception):
    """An error that the user can fix; printed as its findings, never as a traceback.

    Its text has each message with the hint below.

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
        # Pickles subclasses with their attributes: errors pass from one process to another.
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
        """Returns an error with one finding without a location."""
        return cls([Finding(id=id, message=message, hint=hint)], exit_code=exit_code)


def refuse_change(made: object, name: str, _: object) -> NoReturn:
    """Raises UserError: the `__setattr__` of classes whose objects never change."""
    kind = type(made).__name__
    hint = f"make another one with the value: {kind}({name}=…)"
    raise UserError.of("no-change", f"`{name}` of {kind} does not change", hint)


def each_of(things: Iterable[T], act: Callable[[T], object]) -> None:
    """Acts on all of them, even if that fails for one. Raises UserError that says for which."""
    errors: list[UserError] = []
    for each in things:
        try:
            act(each)
        except UserError as error:
            errors.append(error)
    if errors:
        findings = [finding for error in errors for finding in error.findings]
        raise UserError(findings, exit_code=errors[0].exit_code)


def finding_facts(finding: Finding) -> dict[str, str | int | None]:
    """Returns a finding as plain data; line and column count from 1, and are null without a
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
    """Formats a finding for people: location and message, the line with a caret, the hint.

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
    from fairway_core.plain_secrets import secrets_in  # rarely needed, as is the next one
    from fairway_core.secret_values import contains_secret

    return contains_secret(text) or bool(secrets_in(text, tokens=True))


def _harmless(quoted: re.Match[str]) -> str:
    return f"`{_NOT_SHOWN}`" if _tells_secret(quoted[1]) else quoted[0].replace("\n", "\\n")


def excerpt(location: Location) -> list[str]:
    """Returns the line, cut to a window around its column, and a caret line; the text of a line
    that contains a secret is hidden, whatever the finding is about."""
    if _tells_secret(location.text):
        location = location.hidden
    start = max(0, location.column - 1 - _WINDOW // 2) if len(location.text) > _WINDOW else 0
    text = printable(location.text[start : start + _WINDOW])
    column = location.column - 1 - start
    # Tabs stay tabs, so that the caret is below its character in any terminal.
    indent = "".join("\t" if character == "\t" else " " for character in text[:column])
    caret = "^" * max(1, min(location.length, len(text) - column))
    number = f"{location.line:>5}"
    return [f"{number} | {text}", f"{' ' * len(number)} | {indent}{caret}"]


def printable(text: str) -> str:
    """Replaces control characters that could move a terminal's cursor."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\t" else "\ufffd" for c in text)


def counted(count: int, noun: str) -> str:
    """Formats a number of things.

    >>> counted(1, "file"), counted(12345, "file")
    ('1 file', '12,345 files')
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
