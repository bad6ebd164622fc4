"""Dataclasses that are created in a quarter of the time.

Python writes, compiles and runs the text of six methods for each frozen dataclass. That is most of
the import time of a module of them, and a short command imports a hundred and uses few. Here only
`__init__` is compiled for each, when the first object is made; the other methods are shared. Only
the type checker refuses to change a frozen one.
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
        """Decorates a class like `dataclasses.dataclass`, without `order`, `init` or InitVar."""

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
    """Returns an `__init__` that has `dataclasses` compile the real one at the first call."""

    written: Any = None

    def init(self: Any, /, *args: Any, **kwargs: Any) -> None:
        nonlocal written
        if written is None:
            taken = [(each.name, each.type, each) for each in dataclasses.fields(cls)]
            kept = {"__doc__": "Without one, its signature is read."}
            if hasattr(cls, "__post_init__"):
                kept["__post_init__"] = cls.__post_init__
            made: Any = dataclasses.make_dataclass(
                cls.__name__, taken, namespace=kept, repr=False, eq=False, match_args=False
            )
            written = made.__init__
        if cls.__init__ is init:  # unless somebody has wrapped it
            cls.__init__ = written
        written(self, *args, **kwargs)

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
