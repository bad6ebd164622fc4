"""Dataclasses that are written as JSON and read from it, each field as its type says. What crosses
between this machine and a host is of such types at both ends. Standard library only."""

from __future__ import annotations

from dataclasses import MISSING, fields
from functools import cache
from types import NoneType
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, get_args, get_origin, get_type_hints

from fairway_agent.fields import Fields, OtherVersion

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Read = Callable[[Fields, str], Any]

R = TypeVar("R", bound="JsonRecord")


class JsonRecord:
    """The base of such a dataclass; CALLED is what messages call it, and ONE_OF has the fields
    that hold one of few texts. A file that outlives the program has a VERSION: one of another is
    refused.

    A field is a text, a whole number or a span that is not negative, a flag, whatever has a
    `from_json`, a tuple or a mapping of these, any of them or None, or an `object`, which nobody
    looks at. One that has a default may be missing.

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
            if values[name] not in texts:
                raise found.unfit(name)
        return cls(**values)

    def to_json(self) -> dict[str, object]:
        """As it is sent, or as its file has it."""
        facts = {name: _plain(getattr(self, name)) for name in _readers(type(self))}
        return {"version": self.VERSION, **facts} if self.VERSION else facts


def _readers(cls: type[JsonRecord]) -> dict[str, tuple[Read, bool]]:
    """How each field is read, and whether it must be there."""
    kind: Any = cls
    found: dict[str, tuple[Read, bool]] = _readers_of(kind)
    return found


@cache
def _readers_of(cls: Any) -> dict[str, tuple[Read, bool]]:
    kinds = get_type_hints(cls)
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
}


def _reader(kind: Any) -> Read:
    if kind in _PLAIN:
        return _PLAIN[kind]
    if hasattr(kind, "from_json"):
        return lambda found, name: kind.from_json(found.facts[name])
    inner = [_reader(each) for each in get_args(kind) if each not in (NoneType, Ellipsis)][-1]
    if NoneType in get_args(kind):
        return lambda found, name: None if found.facts[name] is None else inner(found, name)
    if get_origin(kind) is tuple:
        return lambda found, name: tuple(
            _each(inner, found, name, dict(enumerate(found.each(name)))).values()
        )
    return lambda found, name: _each(inner, found, name, found.mapping(name))


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
