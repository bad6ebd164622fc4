"""Dataclasses that a program makes in a quarter of the time.

Python writes, compiles and runs the text of six methods for each frozen dataclass. That is most of
the time that a module of them takes, and a short command imports a hundred and uses few. Here only
`__init__` is written for each, when the first object is made, and they share the others. The type
checker alone refuses a change of one that is frozen.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(
        cls: type | None = None, /, *, frozen: bool = False, eq: bool = True, **settings: Any
    ) -> Any:
        """As `dataclasses.dataclass` does it, but for `order`."""

        def made(cls: type) -> type:
            own = vars(cls).keys()
            new = dataclasses.dataclass(cls, init=False, repr=False, eq=False, **settings)
            shared = {"__init__": _unwritten(new), "__repr__": _shown}
            if eq:
                shared |= {"__eq__": _equal, "__hash__": _hash if frozen else None}
            for name in shared.keys() - own:
                setattr(new, name, shared[name])
            return new

        return made if cls is None else made(cls)


def _unwritten(cls: Any) -> Any:
    """An `__init__` that gives the class its own at the first call."""

    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        cls.__init__ = _written(cls)
        cls.__init__(self, *args, **kwargs)

    return init


def _written(cls: Any) -> Any:
    """The `__init__` that `dataclasses` would write."""
    known: dict[str, Any] = {"MISSING": dataclasses.MISSING}
    plain, named, body = ["self"], list[str](), list[str]()
    for each in dataclasses.fields(cls):
        name, default, taken = each.name, f"{each.name}__default", each.name
        if each.default_factory is not dataclasses.MISSING:
            known[default] = each.default_factory
            taken = f"{default}() if {name} is MISSING else {name}" if each.init else f"{default}()"
            given = f"{name}=MISSING"
        elif each.default is not dataclasses.MISSING:
            known[default] = each.default
            taken, given = name if each.init else default, f"{name}={default}"
        elif each.init:
            given = name
        else:
            continue
        if each.init:
            (named if each.kw_only else plain).append(given)
        body.append(f"self.{name} = {taken}")
    if hasattr(cls, "__post_init__"):
        body.append("self.__post_init__()")
    parameters = ", ".join([*plain, *(["*", *named] if named else [])])
    text = "\n    ".join([f"def __init__({parameters}):", *(body or ["pass"])])
    exec(text, known)  # noqa: S102 - of the class's own names
    init = known["__init__"]
    init.__qualname__ = f"{cls.__qualname__}.__init__"
    return init


def _compared(value: Any) -> tuple[object, ...]:
    names = [each.name for each in dataclasses.fields(value) if each.compare]
    return tuple([getattr(value, name) for name in names])


def _equal(self: Any, other: object) -> Any:
    if type(other) is not type(self):
        return NotImplemented
    return _compared(self) == _compared(other)


def _hash(self: Any) -> int:
    return hash(_compared(self))


def _shown(self: Any) -> str:
    fields = [each.name for each in dataclasses.fields(self) if each.repr]
    values = ", ".join(f"{name}={getattr(self, name)!r}" for name in fields)
    return f"{type(self).__qualname__}({values})"
