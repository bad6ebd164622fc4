"""Jinja as Fairway uses it: sandboxed, strict, and quoting for the shell.

There are two environments: in `shell_environment` each substituted value is quoted as one shell
word (a list as several) unless it went through the filter `raw`; `text_environment` substitutes
values unchanged. Errors of a template are `TemplateFault`s with its line. Template files have
comments, `{# … #}`; texts of a job have none.
"""

from __future__ import annotations

import re
import shlex
import tempfile
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import jinja2
from jinja2 import (
    Environment,
    FileSystemBytecodeCache,
    FileSystemLoader,
    StrictUndefined,
    Template,
    TemplateSyntaxError,
    UndefinedError,
)
from jinja2.environment import TemplateModule
from jinja2.exceptions import SecurityError
from jinja2.sandbox import SandboxedEnvironment
from jinja2.utils import missing
from pydantic import BaseModel

import fairway_core
from fairway_agent import process_limits
from fairway_agent.process_limits import memory_limit
from fairway_core.light_models import LightModel

if TYPE_CHECKING:
    from jinja2.bccache import Bucket

    from fairway_core.findings import Location

_LARGEST_PRODUCT = 1_000_000
_LARGEST_POWER = 1_000
_MEMORY = 256 << 20  # bytes of memory for a template
_OF_ALL_MODELS = frozenset(dir(BaseModel) + dir(LightModel))
# For a job's texts, because the shell has `${#array[@]}`. No text contains U+0000.
_NO_COMMENTS = {"comment_start_string": "\0{#", "comment_end_string": "#}\0"}
_RAW_OR_COMMENT = re.compile(r"\{%[-+]?\s*raw\s*-?%\}.*?\{%[-+]?\s*endraw|(?<!\$)\{#", re.DOTALL)
_OWN_MARKS = "put text that has these marks itself between {% raw %} and {% endraw %}"


class TemplateFault(Exception):
    """Error in a template, with its line (from 1), a hint, and the unknown `name` if it is one."""

    def __init__(
        self, message: str, line: int, file: str | None = None, name: str = "", hint: str = ""
    ) -> None:
        super().__init__(message)
        self.line = line
        self.file = file
        self.name = name
        self.hint = hint


def expression_of(fault: TemplateFault, line: Location) -> Location:
    """Returns the part of the line with the fault: the expression with the unknown name."""
    if not fault.name:
        return line
    name = rf"\b{re.escape(fault.name)}\b"
    for expression in re.finditer(r"\{\{.*?\}\}|\{%.*?%\}", line.text):
        if re.search(name, expression[0]):
            return replace(line, column=expression.start() + 1, length=len(expression[0]))
    return line


class Names(dict[str, Any]):
    """Values that a template accesses by name only: `params.items` is the parameter `items`, or
    unknown, and never the method of a mapping. `label` is the template's name for them."""

    def __init__(self, label: str, values: Mapping[str, Any]) -> None:
        super().__init__(values)
        self.label = label


class _UnknownName(UndefinedError):
    """Error for a name that the template is not given."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(message)
        self.name = name


class _Undefined(StrictUndefined):
    """Distinguishes unknown names of a template from missing attributes of its own values."""

    def __init__(
        self,
        hint: str | None = None,
        obj: Any = missing,
        name: str | None = None,
        exc: Any = UndefinedError,
    ) -> None:
        if obj is missing or isinstance(obj, Names):
            exc = partial(_UnknownName, str(name) if obj is missing else f"{obj.label}.{name}")
        super().__init__(hint, obj, name, exc)


class _Environment(SandboxedEnvironment):
    # Two operators that make values of any size from small ones.
    intercepted_binops = frozenset({"*", "**"})

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        sizes = [len(each) for each in (left, right) if isinstance(each, str | list | tuple)]
        counts = [each for each in (left, right) if isinstance(each, int)]
        if operator == "*" and sizes and counts and sizes[0] * counts[0] > _LARGEST_PRODUCT:
            raise ValueError(f"the product has over {_LARGEST_PRODUCT:,} parts")
        if operator == "**" and isinstance(right, int) and right > _LARGEST_POWER:
            raise ValueError(f"the exponent is above {_LARGEST_POWER:,}")
        # No signal interrupts Python within one operation on huge numbers.
        if any(each.bit_length() > _LARGEST_POWER for each in counts):
            raise ValueError(f"the number has over {_LARGEST_POWER:,} bits")
        return super().call_binop(context, operator, left, right)

    def make_globals(self, d: MutableMapping[str, Any] | None) -> MutableMapping[str, Any]:
        # Jinja would make a ChainMap, which every render and import copies slowly in Python.
        return {**self.globals, **(d or {})}

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        # For these the name alone decides: Jinja's own checks take longer, for each task again. The
        # methods of every model are pydantic's: some read files, or run what they are given.
        if isinstance(obj, BaseModel | LightModel | TemplateModule):
            return not attr.startswith("_") and attr not in _OF_ALL_MODELS
        return super().is_safe_attribute(obj, attr, value)

    def getattr(self, obj: Any, attribute: str) -> Any:
        if isinstance(obj, Names):
            return self._named(obj, attribute)
        return super().getattr(obj, attribute)

    def getitem(self, obj: Any, argument: Any) -> Any:
        if isinstance(obj, Names):
            return self._named(obj, argument)
        return super().getitem(obj, argument)

    def _named(self, names: Names, key: Any) -> Any:
        return names[key] if key in names else self.undefined(obj=names, name=key)


GAP = "\0"
"""Delimiter around the number of a gap in a template's output; no text contains it."""


class Gap:
    """Placeholder in a template for shell text of that `length`, which is inserted later: the one
    of that `number`. It can be printed, and stripped of trailing blanks, of which it has none. A
    template that reads it, or prints one without a number, fails."""

    def __init__(self, length: int = 0, number: int | None = None) -> None:
        self._length = length
        self._number = number

    def __len__(self) -> int:
        return self._length if self._number is not None else self._refuse()

    def printed(self) -> str:
        return f"{GAP}{self._number}{GAP}" if self._number is not None else self._refuse()

    def rstrip(self) -> Gap:
        return self

    def _refuse(self, *_: object) -> NoReturn:
        raise TypeError("the text is not known")

    __contains__ = __getattr__ = __getitem__ = __iter__ = __str__ = _refuse
    __eq__ = __hash__ = _refuse


class Raw(str):
    """Shell text that is inserted unchanged."""

    __slots__ = ()


def shell_words(value: Any) -> str:
    """Returns the value as shell words: a list as one word per item, anything else as one word.

    >>> shell_words("it's"), shell_words([1, "a b"]), shell_words(True)
    ('\\'it\\'"\\'"\\'s\\'', "1 'a b'", 'true')
    """
    if isinstance(value, Raw):
        return str(value)
    if isinstance(value, list | tuple):
        return " ".join(shell_words(item) for item in value)
    if isinstance(value, Gap):
        return value.printed()
    return shlex.quote(plain_text(value))


def plain_text(value: Any) -> str:
    """Returns the value as text, booleans as YAML writes them."""
    return str(value).lower() if isinstance(value, bool) else str(value)


@cache
def text_environment() -> SandboxedEnvironment:
    """Returns the environment for values that do not reach a shell."""
    return _Environment(
        undefined=_Undefined, finalize=plain_text, keep_trailing_newline=True, **_NO_COMMENTS
    )


@cache
def shell_environment(folders: Sequence[Path] = ()) -> SandboxedEnvironment:
    """Returns the environment for shell text, or for files with imports from the `folders`."""
    compiled: _CompiledFiles | None = None
    # Without a writable temporary folder Python names the current one, which may be the project.
    with suppress(OSError, RuntimeError):
        if folders and not Path(tempfile.gettempdir()).samefile("."):
            compiled = _CompiledFiles(pattern="fairway-%s")
    environment = _Environment(
        undefined=_Undefined,
        finalize=shell_words,
        loader=FileSystemLoader([str(folder) for folder in folders]) if folders else None,
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
        bytecode_cache=compiled,
        **({} if folders else _NO_COMMENTS),
    )
    environment.filters["raw"] = lambda value: Raw(plain_text(value))
    environment.filters["quote"] = lambda value: Raw(shell_words(value))
    return environment


_MOST_COMPILED = 500  # files of bytecode, about 12 KiB each: enough for twenty installations


class _CompiledFiles(FileSystemBytecodeCache):
    """Cache of template files as Python's bytecode, in a folder that only the user can read or
    write: compiling them takes a tenth of a submission. A full disk is no reason to fail."""

    def get_bucket(self, environment: Environment, name: str, filename: Any, source: str) -> Bucket:
        # The key has no folder, because code that users send to a server gets a new one each time.
        # It has the installation: two used in turn would overwrite each other's files.
        return super().get_bucket(environment, name, __file__, f"{filename}\n{source}")

    def get_source_checksum(self, source: str) -> str:
        # Constants in a template are quoted when it is compiled, by this module.
        made_by = (jinja2.__version__, fairway_core.__version__, Path(__file__).stat().st_mtime_ns)
        return super().get_source_checksum(f"{made_by}\n{source}")

    def dump_bytecode(self, bucket: Bucket) -> None:
        with suppress(OSError):
            super().dump_bytecode(bucket)
            kept = Path(self.directory).glob(self.pattern % "*")
            for old in sorted(kept, key=lambda file: file.stat().st_mtime)[:-_MOST_COMPILED]:
                old.unlink(missing_ok=True)


@lru_cache(maxsize=256)
def compile_text(environment: SandboxedEnvironment, source: str) -> Template:
    """Compiles the template. Raises TemplateFault if it does not parse."""
    with _compiling():
        template = environment.from_string(source)
        if environment.comment_start_string != "{#":
            found = (each for each in _RAW_OR_COMMENT.finditer(source) if each[0] == "{#")
            first = next(found, None)
            if first is not None and source.find("#}", first.end()) >= 0:
                hint = f"write comments as YAML or the shell does, behind a `#`, or {_OWN_MARKS}"
                line = source.count("\n", 0, first.start()) + 1
                raise TemplateFault("a job has no comments of the form {# … #}", line, hint=hint)
    return template


def compile_file(environment: SandboxedEnvironment, name: str) -> Template:
    """Compiles a file in the environment's folders. Raises TemplateFault if it does not parse."""
    with _compiling():
        return environment.get_template(name)


@contextmanager
def _compiling() -> Iterator[None]:
    try:
        # Jinja already evaluates constants here.
        with process_limits.cpu_limit(), memory_limit(_MEMORY):
            yield
    except process_limits.OverLimit:
        raise TemplateFault(_too_slow(), 1) from None
    except MemoryError:
        raise TemplateFault(_TOO_LARGE, 1) from None
    except TemplateSyntaxError as error:
        message = f"this is not a Jinja template: {error.message}"
        raise TemplateFault(message, error.lineno, hint=_OWN_MARKS) from None
    except (SyntaxError, RecursionError) as error:
        # Jinja generates Python, which limits nesting.
        hint = "split it into shorter expressions"
        raise TemplateFault(f"this template is too complex: {error}", 1, hint=hint) from None


def render(template: Template, context: Mapping[str, Any]) -> str:
    """Returns the text. Raises TemplateFault for an unknown name, a failure or a limit."""
    try:
        with process_limits.cpu_limit(), memory_limit(_MEMORY):
            return template.render(context)
    except TemplateSyntaxError as error:
        message = f"this is not a Jinja template: {error.message}"
        raise TemplateFault(message, error.lineno, error.filename) from None
    except Exception as error:  # noqa: BLE001 - an expression of the user's may raise anything
        name = ""
        match error:
            case process_limits.OverLimit():
                message = _too_slow()
            case MemoryError():
                message = _TOO_LARGE
            case _UnknownName():
                name = error.name
                message = f"unknown name `{name}`{_near(name, context)}"
            case SecurityError():
                message = f"not allowed in a template: {error}"
            case _:
                message = f"the expression fails: {str(error) or type(error).__name__}"
        raise TemplateFault(message, *_line_and_file(error, template), name=name) from None


_TOO_LARGE = (
    f"this template was stopped at {_MEMORY >> 20} MiB of memory: it makes too large a text or list"
)


def _too_slow() -> str:
    limit = f"{process_limits.CPU_LIMIT:g} s of processor time"
    return f"this template was stopped after {limit}: it loops too often, or over too much text"


def _near(name: str, context: Mapping[str, Any]) -> str:
    """Returns the known name closest to an unknown one, or all known names."""
    from fairway_core.suggestions import did_you_mean, nearest

    label, dot, _ = name.partition(".")
    if dot:
        near = did_you_mean(name, [f"{label}.{each}" for each in context.get(label, ())])
        return f": {near}" if near else ""
    known = {each: each for each in context}
    for outer, value in context.items():
        for inner in value if isinstance(value, Names) else ():
            known.setdefault(inner, f"{outer}.{inner}")
    found = nearest(name, known)
    listed = ", ".join(sorted(known.values()))
    return f": did you mean `{known[found]}`?" if found else f"; known names: {listed}"


def _line_and_file(error: BaseException, template: Template) -> tuple[int, str | None]:
    """Returns the line and file of the innermost template frame of the traceback."""
    line, file = 1, None
    step = error.__traceback__
    while step is not None:
        name = step.tb_frame.f_code.co_filename
        if name == "<template>" or name == template.filename or name.endswith(".j2"):
            line = step.tb_lineno
            file = None if name == "<template>" else name
        step = step.tb_next
    return line, file
