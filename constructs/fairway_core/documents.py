"""Documents that people write: YAML files validated into models, with line numbers kept.

A `Document` is plain data with the location of each value, so that an error found later, by a model
or by a check, can be shown at its line.
"""

from __future__ import annotations

import os
import sys
import threading
from codecs import BOM_UTF8
from collections.abc import Callable, Mapping
from contextlib import contextmanager
from dataclasses import field, replace
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator
from pydantic_core import core_schema

from fairway_agent.quick import dataclass
from fairway_core.findings import Finding, Location, UserError, refuse_change
from fairway_core.light_fields import Check as Check
from fairway_core.light_fields import FieldError as FieldError
from fairway_core.light_fields import matching as matching
from fairway_core.light_fields import require as require
from fairway_core.yaml_text import DEEP, FLATTER, DataPath, YamlText, nearest_mark, parse_yaml

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pydantic import GetCoreSchemaHandler, ValidationInfo
    from pydantic._internal._model_construction import ModelMetaclass as _Metaclass
else:
    _Metaclass = type(BaseModel)

BY_HAND = "by_hand"
"""A key of the context: the data to validate is a document, as people write it, or the dump is to
become one."""
_LARGEST_FILE = 2**20  # the parser takes some seconds for this size
_MOST_NAMES = 4  # arguments in a hint
_MOST_OF_A_RANGE = 10**6  # numbers: more than any field takes


def to_document(value: Any) -> Any:
    """Converts a program's arguments to the values of a document: NumPy's numbers and arrays,
    ranges and paths become numbers, lists and text.

    >>> to_document({"x": range(3), "y": (Path("a"), 0.5)})
    {'x': [0, 1, 2], 'y': ['a', 0.5]}
    """
    match value:
        case Mapping():
            return {name: to_document(each) for name, each in value.items()}
        case list() | tuple():
            return [to_document(each) for each in value]
        case range():
            return list(value[:_MOST_OF_A_RANGE])
        case os.PathLike():
            return os.fspath(value)
    if isinstance(value, type):  # such as `np.float32`, whose numbers are
        return value
    as_list = getattr(value, "tolist", None)
    return as_list() if callable(as_list) else value


class _MadeInPython(_Metaclass):
    """A metaclass that reports wrong arguments of a model as UserError, as in a document."""

    # Type checkers must see the arguments of the model.
    if not TYPE_CHECKING:

        def __call__(cls, *args, **fields):  # noqa: N805  # of a metaclass
            # A key that is a Python keyword, such as `finally`, is written `finally_` in Python.
            known = {name: each.alias or name for name, each in cls.__pydantic_fields__.items()}
            if args:
                names = ", ".join(f"{each}=…" for each in list(known)[:_MOST_NAMES])
                message = f"{cls.__name__} takes its arguments by name"
                raise UserError.of("unnamed-argument", message, f"write {cls.__name__}({names})")
            try:
                fields = {known.get(name, name): to_document(each) for name, each in fields.items()}
                return super().__call__(**fields)
            except RecursionError:  # a value may contain itself
                raise UserError.of("bad-value", f"`{cls.__name__}`: {DEEP}", FLATTER) from None
            except ValidationError as error:
                from fairway_core.validation import Arguments, findings_of

                raise UserError(findings_of(error, Arguments(fields), cls)) from None


class Model(BaseModel, metaclass=_MadeInPython):
    """Base of everything that is read from a document: frozen, and strict about keys. One that is
    made in Python raises UserError for what a document may not say either. FOREIGN are keys that
    other programs' files have, with what to write in their place."""

    FOREIGN: ClassVar[Mapping[str, str]] = {}

    if not TYPE_CHECKING:
        __setattr__ = refuse_change

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    @classmethod
    def with_defaults(cls, **given: object) -> Self:
        """Returns a model; None stands for a default. Raises UserError for wrong values."""
        return cls(**{name: value for name, value in given.items() if value is not None})

    @classmethod
    def model_json_schema(cls, *args: Any, **options: Any) -> dict[str, Any]:
        """Returns the schema of the model's documents, with all models that they may contain."""
        Later.is_imported = True
        try:
            cls.model_rebuild(force=True)
            return super().model_json_schema(*args, **options)
        finally:
            Later.is_imported = False

    @classmethod
    def model_rebuild(cls, **options: Any) -> bool | None:
        """Builds the validator when it is first needed."""
        if cls.__pydantic_complete__ and not options.get("force"):
            return None
        # Names are looked up in the caller's namespace, which is one frame further away.
        depth = options.pop("_parent_namespace_depth", 2) + 1
        # Validators of defaults come first, as parts of this one: else they are built twice.
        for each in cls.model_fields.values():
            default = each.default_factory
            if isinstance(default, type) and issubclass(default, Model):
                default.model_rebuild()
        with _without_plugins():
            return super().model_rebuild(**options, _parent_namespace_depth=depth)


_BUILDING = threading.RLock()
_LOADER = "pydantic.plugin._loader"


@contextmanager
def _without_plugins() -> Iterator[None]:
    """Keeps pydantic from looking for plugins in all installed packages, and so from importing
    importlib.metadata, email and zipfile, which takes longer than building the validators. Models
    of other packages still get their plugins afterwards."""
    with _BUILDING:
        before = sys.modules.get(_LOADER)
        sys.modules[_LOADER] = _NO_PLUGINS
        try:
            yield
        finally:
            if before is None:
                del sys.modules[_LOADER]
            else:
                sys.modules[_LOADER] = before


class _NoPlugins(ModuleType):
    @staticmethod
    def get_plugins() -> tuple[()]:
        return ()


_NO_PLUGINS = _NoPlugins(_LOADER)


ModelT = TypeVar("ModelT", bound=BaseModel)


class Later(type):
    """A stand-in for a model that is imported only when a document contains it.

    Code that walks annotations finds the model by `__value__`, as for a type alias. Type checkers
    see the model itself:

    >>> Notify = Later.of("fairway_core.notifications", "Notify")
    >>> Notify.__value__.__name__
    'Notify'
    """

    module: str
    is_imported: ClassVar[bool] = False

    @classmethod
    def of(cls, module: str, name: str) -> Any:
        """Returns a field type for the model `name` of `module`, which is imported when needed."""
        return cls(name, (), {"module": module})

    @property
    def __value__(cls) -> type[Model]:
        model: type[Model] = getattr(import_module(cls.module), cls.__name__)
        return model

    def __get_pydantic_core_schema__(
        cls, _: object, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        if cls.is_imported:
            return handler(cls.__value__)
        return core_schema.with_info_plain_validator_function(cls._validated)

    def _validated(cls, value: object, info: ValidationInfo) -> Model:
        import json

        model = cls.__value__
        if info.mode == "json":
            text = json.dumps(value)
            return model.model_validate_json(text, strict=True, context=info.context)
        return model.model_validate(value, context=info.context)


def rule(check: Callable[[Any], None]) -> Any:
    """Makes a method a rule of its model: it raises FieldError if fields do not fit together.

    >>> class Range(Model):
    ...     min: int
    ...     max: int
    ...
    ...     @rule
    ...     def _in_order(self) -> None:
    ...         if self.min > self.max:
    ...             raise FieldError("min is more than max")
    """

    def check_all(model: BaseModel) -> BaseModel:
        check(model)
        return model

    return model_validator(mode="after")(check_all)


@dataclass(frozen=True)
class Document:
    """Plain data read from a file, the locations of its values, and its overrides."""

    text: YamlText
    data: Any
    overrides: dict[DataPath, Location] = field(default_factory=dict)

    @property
    def file(self) -> str:
        """The file's name as the user gave it."""
        return self.text.file

    def location(self, path: DataPath, *, of_key: bool = False) -> Location:
        """Returns the location of the value (`of_key`: of the key), or of its nearest ancestor."""
        for end in range(len(path), 0, -1):
            if path[:end] in self.overrides:
                return self.overrides[path[:end]]
        below = self.set_below(path)
        if below in self.overrides and path not in self.text.values:
            return self.overrides[below]
        tables = (self.text.keys, self.text.values) if of_key else (self.text.values,)
        mark = nearest_mark(path, *tables)
        assert mark is not None, "the root of a document always has a mark"
        return self.text.location(mark)

    def set_below(self, path: DataPath) -> DataPath:
        """Returns the last path that `-s` has set below this one, to blame it first; otherwise this
        one."""
        return next((each for each in reversed(self.overrides) if each[: len(path)] == path), path)

    def finding(
        self, rule: str, path: DataPath, message: str, hint: str, *, of_key: bool = False
    ) -> Finding:
        """Returns a finding on the value (or with `of_key` the key) at a path, with its line."""
        location = self.location(path, of_key=of_key)
        return Finding(rule, message, hint, ".".join(map(str, path)), location=location)

    def error(
        self, rule: str, path: DataPath, message: str, hint: str, *, of_key: bool = False
    ) -> UserError:
        """Returns an error with one such finding."""
        return UserError([self.finding(rule, path, message, hint, of_key=of_key)])

    def written(self, path: DataPath, value: Any) -> str:
        """Returns the number or boolean at the path as typed in the file or after `-s`, or as
        templates print it if it was not typed."""
        shown = str(value).lower() if isinstance(value, bool) else str(value)
        text = self.text
        try:
            for end in range(len(path), 0, -1):
                if typed := self.overrides.get(path[:end]):
                    text = parse_yaml(typed.text[typed.column - 1 :], typed.file)
                    path = path[end:]
                    break
            mark = text.values.get(path)
            found = text.location(mark) if mark else None
            word = found.text[found.column - 1 :][: found.length] if found else shown
            word = word.rpartition(" ")[2]  # an anchor may precede it
            read = value if word == shown else parse_yaml(word, self.file).data
        except UserError:
            return shown
        return word if (type(read), read) == (type(value), value) else shown

    def quoted(self, path: DataPath, value: Any) -> str:
        """Returns the text to type so that the number or boolean at the path is read as text."""
        text, typed = f'"{self.written(path, value)}"', self.overrides.get(path)
        return f"-s '{typed.text[3 : typed.column - 1]}{text}'" if typed else text

    def part(self, start: Location, text: str) -> Location:
        """Returns the location of a part of the value that begins at `start`, if it is there
        verbatim and not rendered by a template; otherwise that of the value."""
        lines = self.text.lines
        if start.file != self.file or lines[start.line - 1] != start.text:
            return start  # it is on the command line
        following = (mark.line for mark in self.text.keys.values() if mark.line > start.line)
        for line in range(start.line, min(following, default=len(lines) + 1)):
            written = lines[line - 1]
            column = written.find(text, start.column - 1 if line == start.line else 0)
            if column >= 0:
                return Location(start.file, line, column + 1, written, len(text))
        return start

    @contextmanager
    def locating(self, path: str = "") -> Iterator[None]:
        """Adds lines to findings about fields that are written in the document; those that name no
        field are about `path`."""
        try:
            yield
        except UserError as error:
            found = (replace(each, path=each.path or path) for each in error.findings)
            raise error.with_findings(map(self._located, found)) from None

    def _located(self, finding: Finding) -> Finding:
        if finding.location is not None or not finding.path:
            return finding
        path: list[str | int] = []
        value = self.data
        for step in finding.path.split("."):
            if isinstance(value, Mapping) and step in value:
                path.append(step)
            elif isinstance(value, list) and step.isdecimal() and int(step) < len(value):
                path.append(int(step))
            else:
                return finding
            value = value[path[-1]]
        return replace(finding, location=self.location(tuple(path)))

    def validate(self, model: type[ModelT]) -> ModelT:
        """Validates the document as a model. Raises UserError with a finding for each fault."""
        import json

        try:
            # Only JSON's strict mode accepts a list for a tuple and text for a path, but never
            # "4" for 4.
            text, context = json.dumps(self.data), {BY_HAND: True}
            return model.model_validate_json(text, strict=True, context=context)
        except ValidationError as error:
            from fairway_core.validation import findings_of

            raise UserError(findings_of(error, self, model)) from None

    def override(self, assignments: Sequence[str], model: type[BaseModel]) -> Document:
        """Returns the document with each `dotted.path=value` set, parsed as the field's type."""
        if not assignments:
            return self
        from fairway_core.overrides import apply

        data, overrides = self.data, dict(self.overrides)
        for assignment in assignments:
            data, path, location = apply(data, assignment, model)
            overrides[path] = location
        return replace(self, data=data, overrides=overrides)


def read(file: str | Path) -> Document:
    """Reads a YAML file. Raises UserError if it is missing, unreadable or not plain YAML."""
    text = parse_yaml(text_of(Path(file)), str(file))
    return Document(text, text.data)


def text_of(path: Path) -> str:
    """Returns the text of a file. Raises UserError if it is missing, unreadable or not text."""
    try:
        if path.is_fifo() and not path.is_relative_to("/dev"):
            # Reading would wait until somebody writes; `<(command)` is under /dev.
            raise UserError.of("not-a-file", f"{path}: is a pipe", "name a YAML file")
        # The limit does not use the file's size: a pipe or a device has none.
        with path.open("rb") as file:
            content = file.read(_LARGEST_FILE + 1)
    except FileNotFoundError:
        raise UserError.of("no-such-file", f"{path}: no such file", _near_file(path)) from None
    except IsADirectoryError:
        hint = "name the YAML file in it"
        raise UserError.of("not-a-file", f"{path}: is a directory", hint) from None
    except OSError as error:
        message = f"{path}: {error.strerror}"
        raise UserError.of("unreadable-file", message, f"ls -l {path}") from None
    if len(content) > _LARGEST_FILE:
        hint = "name a job or an environment; data does not belong in these files"
        raise UserError.of("file-too-large", f"{path}: larger than 1 MiB", hint)
    content = content.removeprefix(BOM_UTF8)
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        column = error.start - (content.rfind(b"\n", 0, error.start) + 1) + 1
        shown = content.splitlines()[line - 1].decode("utf-8", "replace")
        location = Location(str(path), line, column, shown)
        message, hint = f"byte 0x{content[error.start]:02x} is not UTF-8", "save the file as UTF-8"
        raise UserError([Finding("not-utf-8", message, hint, location=location)]) from None


def _near_file(path: Path) -> str:
    from fairway_core.suggestions import did_you_mean

    try:
        names = [entry.name for entry in path.parent.iterdir() if entry.suffix in (".yaml", ".yml")]
    except OSError:
        return ""
    return did_you_mean(path.name, names)
