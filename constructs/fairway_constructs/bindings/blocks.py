"""The base of the generated classes, and the parts that do not need cdktf: blocks and values."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, FrozenInstanceError, dataclass, fields, is_dataclass
from typing import Any, NoReturn, Self, dataclass_transform

from fairway_constructs.arguments import called
from fairway_core.findings import refuse_change


class _Fields:
    """A descriptor that makes a block's class a dataclass on access, as when it is subclassed."""

    def __get__(self, made: object, owner: type[Block]) -> Any:
        if owner is Block:
            raise AttributeError("__dataclass_fields__")
        _make_dataclass(owner)
        return vars(owner)["__dataclass_fields__"]


class _Arguments:
    """A descriptor that shows the fields as arguments, in place of the signature of `__new__`."""

    def __get__(self, made: object, owner: type[Block]) -> inspect.Signature:
        is_dataclass(owner)  # makes it a dataclass
        _, *arguments = inspect.signature(owner.__init__).parameters.values()
        return inspect.Signature(arguments)


@dataclass_transform(frozen_default=True, kw_only_default=True)
class Block:
    """A nested block; every subclass is a frozen dataclass that takes its fields by name.

    A field is an attribute or a block. If its name would mean something else in Python, it ends in
    an underscore.

    There are some hundred of these classes, of which a program uses few: one becomes a dataclass
    when its first instance is created, or its fields are requested. And most of the cost of
    `@dataclass(frozen=True)` (0.3 ms) is in methods that they can share: here it is a tenth.
    """

    __dataclass_fields__ = _Fields()
    __signature__ = _Arguments()

    def __new__(cls, *_: object, **__: object) -> Self:
        if "__dataclass_fields__" not in vars(cls):
            _make_dataclass(cls)
        return super().__new__(cls)

    __setattr__ = refuse_change

    def __delattr__(self, name: str) -> NoReturn:
        raise FrozenInstanceError(f"cannot delete field {name!r}")

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash((type(self), *vars(self).values()))

    def __repr__(self) -> str:
        given = ", ".join(f"{name}={it!r}" for name, it in vars(self).items() if it is not None)
        return f"{type(self).__name__}({given})"


def _make_dataclass(block: type[Block]) -> None:
    dataclass(init=False, repr=False, eq=False)(block)
    named = fields(block)  # type: ignore[arg-type]  # a dataclass since the line above
    parameters = (f.name if f.default is MISSING else f"{f.name}=None" for f in named)
    signature = ", ".join(["self", *(["*"] if named else []), *parameters])
    values = ", ".join(f"{f.name}={f.name}" for f in named)
    scope: dict[str, Any] = {}
    exec(f"def __init__({signature}): self.__dict__.update({values})", scope)  # noqa: S102
    # The name in a TypeError.
    scope["__init__"].__qualname__ = block.__qualname__
    block.__init__ = called(scope["__init__"])  # type: ignore[method-assign]


class ObjectValue(Block):
    """An object in an attribute that holds objects; the generated subclasses name its fields.

    Terraform requires such an object to be complete, so a field that is None is written as null.
    """


class Timeouts(Block):
    """Time limits of Terraform's operations: "90m", "2h30m". None leaves the provider's default."""

    create: str | None = None
    read: str | None = None
    update: str | None = None
    delete: str | None = None


class BlockBody(dict[str, Any]):
    """A nested block as plain data; a dict of any other class is a map."""


class ObjectBody(dict[str, Any]):
    """An object in an attribute as plain data."""


# Most values are of these types, and isinstance checks for mappings would dominate the run time.
_PLAIN = frozenset({str, int, float, bool, type(None)})


def terraform_value(value: Any) -> Any:
    """Converts a value to Terraform's JSON: blocks and mappings become dicts, None is dropped.

    Strings, numbers, booleans and cdktf's tokens stay as they are.
    """
    if type(value) in _PLAIN:
        return value
    if isinstance(value, Block):
        # cdktf drops a plain null; as an expression it stays.
        absent = "${null}" if isinstance(value, ObjectValue) else None
        items = vars(value).items()
        found = terraform_value({n.rstrip("_"): absent if it is None else it for n, it in items})
        return ObjectBody(found) if isinstance(value, ObjectValue) else BlockBody(found)
    if isinstance(value, Mapping):
        return {name: terraform_value(item) for name, item in value.items() if item is not None}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [terraform_value(item) for item in value]
    return value
