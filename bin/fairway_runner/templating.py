"""Jinja as Fairway uses it: sandboxed, strict, and quoting for the shell.

Two environments: in `shell_environment` whatever is substituted is quoted as one shell
word (a list as several) unless it went through the filter `raw`; `text_environment`
substitutes values as they are. Faults of a template are `TemplateFault`s with its line.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from jinja2 import StrictUndefined, TemplateError, TemplateSyntaxError
from jinja2.sandbox import SandboxedEnvironment

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from jinja2 import Template


class TemplateFault(Exception):
    """What is wrong in a template, in words, and the template's line (from 1)."""

    def __init__(self, message: str, line: int, file: str | None = None) -> None:
        super().__init__(message)
        self.line = line
        self.file = file


class Raw(str):
    """Shell text that is put in as it stands."""

    __slots__ = ()


def shell_words(value: Any) -> str:
    """The value as shell words: a list as one word an item, anything else as one word.

    >>> shell_words("it's"), shell_words([1, "a b"]), shell_words(True)
    ("'it'\\"'\\"'s'", "1 'a b'", 'true')
    """
    if isinstance(value, Raw):
        return str(value)
    if isinstance(value, list | tuple):
        return " ".join(shell_words(item) for item in value)
    return shlex.quote(plain_text(value))


def plain_text(value: Any) -> str:
    """The value as text, booleans as YAML writes them."""
    return str(value).lower() if isinstance(value, bool) else str(value)


@cache
def text_environment() -> SandboxedEnvironment:
    """For values that do not reach a shell."""
    return SandboxedEnvironment(
        undefined=StrictUndefined, finalize=plain_text, keep_trailing_newline=True
    )


@cache
def shell_environment(folders: Sequence[Path] = ()) -> SandboxedEnvironment:
    """For shell text; `folders` are searched for the templates that a template imports."""
    from jinja2 import FileSystemLoader

    environment = SandboxedEnvironment(
        undefined=StrictUndefined,
        finalize=shell_words,
        loader=FileSystemLoader([str(folder) for folder in folders]) if folders else None,
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["raw"] = lambda value: Raw(plain_text(value))
    environment.filters["quote"] = lambda value: Raw(shell_words(value))
    return environment


def compile_text(environment: SandboxedEnvironment, source: str) -> Template:
    """The template, compiled; TemplateFault where it does not parse."""
    try:
        return environment.from_string(source)
    except TemplateSyntaxError as error:
        raise TemplateFault(
            f"this is not a Jinja template: {error.message}", error.lineno
        ) from None


def render(template: Template, context: Mapping[str, Any]) -> str:
    """The template's text; TemplateFault where a name is unknown or an expression fails."""
    from jinja2.exceptions import SecurityError, UndefinedError

    try:
        return template.render(context)
    except TemplateSyntaxError as error:
        raise TemplateFault(
            f"this is not a Jinja template: {error.message}", error.lineno, error.filename
        ) from None
    except UndefinedError as error:
        message = _undefined(str(error.message), context)
        raise TemplateFault(message, *_place(error, template)) from None
    except SecurityError as error:
        raise TemplateFault(
            f"not allowed in a template: {error}", *_place(error, template)
        ) from None
    except (TemplateError, ArithmeticError, LookupError, TypeError, ValueError) as error:
        message = f"the expression fails: {error}"
        raise TemplateFault(message, *_place(error, template)) from None


def _undefined(message: str, context: Mapping[str, Any]) -> str:
    """Jinja's message with the nearest known name behind it."""
    from fairway_core.spelling import did_you_mean

    name = message.rsplit("'", 2)[-2] if message.count("'") >= 2 else ""
    attribute = "no attribute" in message
    known = [
        f"{outer}.{inner}"
        for outer, value in context.items()
        if isinstance(value, Mapping)
        for inner in value
    ]
    if attribute:
        known = [each.split(".", 1)[1] for each in known]
    else:
        known += list(context)
    mend = did_you_mean(name, known)
    return f"unknown name `{name}`" + (f": {mend}" if mend else "")


def _place(error: BaseException, template: Template) -> tuple[int, str | None]:
    """The line and file of the innermost template frame of the traceback."""
    line, file = 1, None
    step = error.__traceback__
    while step is not None:
        name = step.tb_frame.f_code.co_filename
        if name == "<template>" or name == template.filename or name.endswith(".j2"):
            line = step.tb_lineno
            file = None if name == "<template>" else name
        step = step.tb_next
    return line, file
