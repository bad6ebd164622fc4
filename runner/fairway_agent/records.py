"""Records of fields whose types are checked when they are read."""

from __future__ import annotations

import errno
import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    ClassVar,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

from fairway_boot.files import AgentError

T = TypeVar("T")
Read = Callable[["Fields", Any], Any]
HINT = "submit the job again from its file"
FORMAT = 1
"""Version of the records in a run's folder, raised with a change of any of them: `run.json`, which
every command reads, then says already that a run is of another release."""
OTHER_RELEASE = "other-release"
OTHER_HINT = f"use the release that wrote it, or {HINT}"
_MOST = 1 << 53  # larger integers are not exact in every JSON parser
_LAST_SECOND = 253_402_300_800.0  # the year 10000, after Python's last one
_HUGE = sys.float_info.max


class InvalidRecord(Exception):
    """Error for data that is not as expected; the text says why."""


class OtherVersion(InvalidRecord):
    """Error for a record that another release wrote."""


class UnreadableFile(AgentError):
    """Error for an unreadable file of a run; the text names it and says why."""

    @property
    def finding(self) -> tuple[str, str, str]:
        """Its ID, message and hint, for a report."""
        return str(self.record["id"]), str(self), str(self.record["hint"])


def excerpt(value: object) -> str:
    """Returns the beginning of a value, without characters that could move a terminal's cursor."""
    return "".join(c if c.isprintable() else "\ufffd" for c in str(value)[:40])


class Fields:
    """Typed access to the fields of a mapping. Raises InvalidRecord, which names field and record,
    for one that is missing or of another type."""

    __slots__ = ("facts", "what")

    def __init__(self, facts: object, what: str) -> None:
        if not isinstance(facts, dict):
            raise InvalidRecord(f"{what} is not a mapping")
        self.facts: Mapping[str, Any] = facts
        self.what = what

    def invalid(self, name: str) -> InvalidRecord:
        """Returns the error for a field that is missing or of the wrong type."""
        called = f"`{excerpt(name)}` of {self.what}"
        if name not in self.facts:
            return InvalidRecord(f"{called} is missing")
        return InvalidRecord(f"{called} is {excerpt(self.facts[name])}")

    def text(self, name: str) -> str:
        return self._of_kind(name, str, self.facts.get(name))

    def plain(self, name: str) -> str:
        value = self.text(name)
        if value.isprintable():
            return value
        raise self.invalid(name)

    def count(self, name: str) -> int:
        """Returns an integer that is not negative."""
        return int(self._between(name, int, 0, _MOST))

    def integer(self, name: str) -> int:
        """Returns an integer, which may be negative."""
        return int(self._between(name, int, 1 - _MOST, _MOST))

    def span(self, name: str) -> float:
        """Returns seconds, not negative."""
        return float(self._between(name, (int, float), 0, _MOST))

    def moment(self, name: str) -> float:
        return float(self._between(name, (int, float), 0, _LAST_SECOND))

    def number(self, name: str) -> float:
        return float(self._between(name, (int, float), -_HUGE, _HUGE))

    def text_or_none(self, name: str) -> str | None:
        return self.or_none(name, self.text)

    def flag(self, name: str) -> bool:
        """Returns a boolean; False if the field is missing."""
        return self._of_kind(name, bool, self.facts.get(name, False))

    def each(self, name: str) -> list[Any]:
        """Returns a list; an empty one if the field is missing."""
        return self._of_kind(name, list, self.facts.get(name, []))

    def mapping(self, name: str) -> dict[str, Any]:
        """Returns a mapping; an empty one if the field is missing."""
        return self._of_kind(name, dict, self.facts.get(name, {}))

    def texts(self, name: str) -> tuple[str, ...]:
        """Returns a list of strings; an empty one if the field is missing."""
        values = self.each(name)
        if all(isinstance(value, str) for value in values):
            return tuple(values)
        raise self.invalid(name)

    def variables(self, name: str) -> dict[str, str]:
        """Returns environment variables; none if the field is missing."""
        values = self.mapping(name)
        if all(isinstance(value, str) for value in values.values()):
            return values
        raise self.invalid(name)

    def _of_kind(self, name: str, kind: type[T], value: object) -> T:
        if isinstance(value, kind):
            return value
        raise self.invalid(name)

    def _between(self, name: str, kind: Any, least: float, end: float) -> float:
        """Returns a number from `least` to below `end`; NaN is never between two numbers."""
        value: float = self._of_kind(name, kind, self.facts.get(name))
        if isinstance(value, bool) or not least <= value < end:
            raise self.invalid(name)
        return value

    def or_none(self, name: str, read: Callable[[str], T]) -> T | None:
        """Reads a field by one of these methods; returns None if it is null or missing."""
        return None if self.facts.get(name) is None else read(name)


def section_of(data: object, name: str) -> Mapping[str, Any]:
    """Returns a mapping within unchecked data; empty if it is missing, or either is no mapping."""
    found = data.get(name) if isinstance(data, dict) else None
    return found if isinstance(found, dict) else {}


def parse(path: Path, text: bytes, make: Callable[[Any], T]) -> T:
    """Parses a file's JSON and converts it with `make`. Raises UnreadableFile if that fails."""
    try:
        return make(json.loads(text))
    except RecursionError:
        why = "nested too deeply"
    except OtherVersion as error:
        raise UnreadableFile(OTHER_RELEASE, f"{path}: {error}", OTHER_HINT) from None
    except (ValueError, InvalidRecord) as error:
        why = str(error)
    raise UnreadableFile("damaged-run", f"{path}: damaged: {why}", HINT)


def read(path: Path, make: Callable[[Any], T]) -> T | None:
    """Reads and parses a file as `parse` does; returns None if it does not exist."""
    try:
        try:
            text = path.read_bytes()
        except OSError as error:
            if error.errno != errno.ESTALE:
                raise
            text = path.read_bytes()  # it was replaced meanwhile, on NFS: opened anew, it is there
    except FileNotFoundError:
        return None
    return parse(path, text, make)


R = TypeVar("R", bound="JsonRecord")

Plain = Annotated[str, Fields.plain]
"""Text without characters that could move a terminal's cursor."""
Integer = Annotated[int, Fields.integer]
"""Integer of any sign."""
Number = Annotated[float, Fields.number]
"""Number of any sign."""
Moment = Annotated[float, Fields.moment]
"""Seconds since 1970."""


class JsonRecord:
    """Base of dataclasses that are read from and written to JSON; messages call one `called`.

    A field is a string, a non-negative integer or duration, one of the types above, a boolean, any
    type with a `from_json`, a tuple, list or mapping of these, a union of them or with None, or an
    `object`, which is not checked. A field with a default may be missing, except those in ONE_OF,
    which hold one of a few strings. A SPARSE record is written without fields that are None. A file
    that outlives the program has a VERSION, and one that names another is refused.

    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Host(JsonRecord, label="a host"):
    ...     name: str
    ...     gpus: int = 0
    >>> Host.from_json({"name": "nd-0"}).to_json()
    {'name': 'nd-0', 'gpus': 0}
    """

    __slots__ = ()
    LABEL: ClassVar[str] = "the record"
    VERSION: ClassVar[int] = 0
    SPARSE: ClassVar[bool] = False
    ONE_OF: ClassVar[dict[str, tuple[str, ...]]] = {}

    def __init_subclass__(cls, label: str = "") -> None:
        cls.LABEL = label or cls.LABEL  # slots=True creates the class twice

    @classmethod
    def from_json(cls: type[R], facts: object) -> R:
        found, values, kind = Fields(facts, cls.LABEL), {}, cast("Any", cls)
        is_named = cls.VERSION and "version" in found.facts
        if is_named and (version := found.count("version")) != cls.VERSION:
            known = f"its version is {version}, and this release reads {cls.VERSION}"
            raise OtherVersion(f"of another release: {known}")
        for name, (read, is_needed) in _readers(kind).items():
            if name in found.facts:
                values[name] = read(found, name)
            elif is_needed:
                raise found.invalid(name)
        for name, texts in cls.ONE_OF.items():
            if values.get(name) not in texts:
                raise found.invalid(name)
        new = cls(**values)
        new.check(found)
        return new

    def check(self, found: Fields) -> None:
        """Raises InvalidRecord for a value of the right type that the field still cannot have."""

    def to_json(self) -> dict[str, object]:
        record: Any = self
        facts = {each.name: _plain(getattr(self, each.name)) for each in fields(record)}
        if self.SPARSE:
            facts = {name: value for name, value in facts.items() if value is not None}
        return {"version": self.VERSION, **facts} if self.VERSION else facts


@cache
def _readers(cls: Any) -> dict[str, tuple[Read, bool]]:
    """Returns a reader for each of a record's fields, with True for a required one."""
    kinds = get_type_hints(cls, include_extras=True)
    return {
        each.name: (
            _reader(kinds[each.name]),
            each.default is MISSING and each.default_factory is MISSING,
        )
        for each in fields(cls)
    }


_PLAIN: dict[Any, Read] = {
    str: Fields.text,
    int: Fields.count,
    float: Fields.span,
    bool: Fields.flag,
    object: lambda found, name: found.facts[name],
    Any: lambda found, name: found.facts[name],
}


def _reader(kind: Any) -> Read:
    if kind in _PLAIN:
        return _PLAIN[kind]
    if hasattr(kind, "from_json"):
        return lambda found, name: kind.from_json(found.facts[name])
    origin, args = get_origin(kind), get_args(kind)
    if origin is Annotated:
        read: Read = args[1]
        return read
    if origin in (Union, UnionType):
        return _one_of([_reader(each) for each in args if each is not NoneType], NoneType in args)
    if origin is tuple and args[-1] is not Ellipsis:
        return _row([_reader(each) for each in args])
    inner = _reader(args[-1] if origin is not tuple else args[0])
    if origin in (tuple, list):
        return lambda found, name: origin(
            _each(inner, found, name, dict(enumerate(found.each(name)))).values()
        )
    return lambda found, name: _each(inner, found, name, found.mapping(name))


def _one_of(readers: list[Read], may_be_none: bool) -> Read:
    def read(found: Fields, name: str) -> Any:
        if found.facts[name] is None and may_be_none:
            return None
        for each in readers[:-1]:
            try:
                return each(found, name)
            except InvalidRecord:
                continue
        return readers[-1](found, name)

    return read


def _row(readers: list[Read]) -> Read:
    """Returns a reader of tuples of fixed length, each item with a reader of its own."""

    def read(found: Fields, name: str) -> tuple[Any, ...]:
        values = found.each(name)
        if len(values) != len(readers):
            raise found.invalid(name)
        inside = Fields(dict(enumerate(values)), f"`{name}` of {found.what}")
        return tuple(each(inside, place) for place, each in enumerate(readers))

    return read


def _each(read: Read, found: Fields, name: str, values: Mapping[Any, Any]) -> dict[Any, Any]:
    inside = Fields(values, f"`{name}` of {found.what}")
    return {each: read(inside, each) for each in values}


def _plain(value: Any) -> object:
    if hasattr(value, "to_json"):
        return value.to_json()
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(each) for each in value]
    return value
