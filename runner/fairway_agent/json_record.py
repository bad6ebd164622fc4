"""Dataclasses that are written as JSON and read from it, each field as its type says. What crosses
between this machine and a host is of such types at both ends. Standard library only."""

from __future__ import annotations

from dataclasses import MISSING, fields
from functools import cache
from types import NoneType, UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from fairway_agent.fields import Fields, OtherVersion, Unfit

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Read = Callable[[Fields, str], Any]

R = TypeVar("R", bound="JsonRecord")

Plain = Annotated[str, Fields.plain]
"""A text without characters that could move a terminal's cursor."""
Whole = Annotated[int, Fields.whole]
"""A whole number of any sign."""
Number = Annotated[float, Fields.number]
"""A number of any sign."""
Moment = Annotated[float, Fields.moment]
"""Seconds since 1970."""


class JsonRecord:
    """The base of such a dataclass; CALLED is what messages call it.

    A field is a text, a whole number or a span that is not negative, one of the kinds above, a
    flag, whatever has a `from_json`, a tuple, a list or a mapping of these, any of several of them
    or None, or an `object`, which nobody looks at. One that has a default may be missing, but for
    those in ONE_OF, which hold one of few texts. A SPARSE record is written without fields that are
    None. A file that outlives the program has a VERSION: one of another is refused.

    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Host(JsonRecord):
    ...     CALLED = "a host"
    ...     name: str
    ...     gpus: int = 0
    >>> Host.from_json({"name": "nd-0"}).to_json()
    {'name': 'nd-0', 'gpus': 0}
    """

    __slots__ = ()
    CALLED: ClassVar[str]
    VERSION: ClassVar[int] = 0
    SPARSE: ClassVar[bool] = False
    ONE_OF: ClassVar[dict[str, tuple[str, ...]]] = {}

    @classmethod
    def from_json(cls: type[R], facts: object) -> R:
        """Unfit for what is not one."""
        found, values = Fields(facts, cls.CALLED), {}
        if cls.VERSION and (version := found.count("version")) != cls.VERSION:
            raise OtherVersion(f"its version is {version}, and this release reads {cls.VERSION}")
        for name, (read, is_needed) in _readers(cls).items():
            if name in found.facts:
                values[name] = read(found, name)
            elif is_needed:
                raise found.unfit(name)
        for name, texts in cls.ONE_OF.items():
            if values.get(name) not in texts:
                raise found.unfit(name)
        new = cls(**values)
        new.check(found)
        return new

    def check(self, found: Fields) -> None:
        """Unfit where a field is of its kind and yet none that it may be."""

    def to_json(self) -> dict[str, object]:
        """As it is sent, or as its file has it."""
        facts = {name: _plain(getattr(self, name)) for name in _readers(type(self))}
        if self.SPARSE:
            facts = {name: value for name, value in facts.items() if value is not None}
        return {"version": self.VERSION, **facts} if self.VERSION else facts


def _readers(cls: type[JsonRecord]) -> dict[str, tuple[Read, bool]]:
    """How each field is read, and whether it must be there."""
    kind: Any = cls
    found: dict[str, tuple[Read, bool]] = _readers_of(kind)
    return found


@cache
def _readers_of(cls: Any) -> dict[str, tuple[Read, bool]]:
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
            except Unfit:
                continue
        return readers[-1](found, name)

    return read


def _row(readers: list[Read]) -> Read:
    """A tuple of as many values, each of a kind of its own."""

    def read(found: Fields, name: str) -> tuple[Any, ...]:
        values = found.each(name)
        if len(values) != len(readers):
            raise found.unfit(name)
        facts: dict[Any, Any] = dict(enumerate(values))
        inside, places = Fields(facts, f"`{name}` of {found.what}"), list(facts)
        return tuple(each(inside, place) for place, each in zip(places, readers, strict=True))

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
