"""Attributes of a resource that others can refer to: descriptors for the generated classes.

`subnet.id` is not a value but a reference, which Terraform resolves; across stacks too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, NoReturn, Self, TypeAlias, TypeVar, overload

from fairway_constructs.arguments import refused

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fairway_constructs.cdk import DataSource, IResolvable, Resource

    _Element: TypeAlias = Resource | DataSource

_T = TypeVar("_T")


class _Attribute(Generic[_T]):
    """An attribute that a class declares: reading it on an instance returns a reference, and
    assigning to it sets the argument of that name in Terraform.

    Its name is that of the class's member. A member that had to be renamed, because its name means
    something else in Python, passes Terraform's name.
    """

    def __init__(self, name: str = "") -> None:
        self._name = name

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = self._name or name

    @overload
    def __get__(self, element: None, owner: type) -> Self: ...
    @overload
    def __get__(self, element: _Element, owner: type) -> _T: ...
    def __get__(self, element: _Element | None, owner: type) -> _T | Self:
        return self if element is None else self._read(element)

    def __set__(self, element: _Element, value: Any) -> None:
        element.set_argument(self._name, value)

    def _read(self, element: _Element) -> _T:
        raise NotImplementedError


class StringAttribute(_Attribute[str]):
    """A string, read as a string with a token: the same one each time."""

    def _read(self, element: _Element) -> str:
        known: dict[str, str] = vars(element).setdefault("_tokens", {})
        if self._name not in known:
            known[self._name] = element.reference(self._name)
        return known[self._name]


class NumberAttribute(_Attribute[float]):
    """A number, read as a number that stands for a token: never compute with it."""

    def _read(self, element: _Element) -> float:
        return element.get_number_attribute(self._name)


class BooleanAttribute(_Attribute["IResolvable"]):
    """A boolean, read as a token, because no boolean can stand for a token."""

    def _read(self, element: _Element) -> IResolvable:
        return element.get_boolean_attribute(self._name)


class ListAttribute(_Attribute[list[str]]):
    """A list or set of strings, read as a list that stands for a token: never index it."""

    def _read(self, element: _Element) -> list[str]:
        return element.get_list_attribute(self._name)


class NumberListAttribute(_Attribute[list[float]]):
    """A list or set of numbers, read as a list that stands for a token: never index it."""

    def _read(self, element: _Element) -> list[float]:
        return list(element.get_number_list_attribute(self._name))


class _Unknown(dict[str, str]):
    """A map that only Terraform will know: it stands for a token."""

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        message = "only Terraform knows this map: what you put into it would be lost"
        hint = "assign a map of your own, for tags {**resource.tags_input, …}"
        raise refused("no-change", message, hint)

    __setitem__ = __ior__ = update = setdefault = _refuse


class MapAttribute(_Attribute["Mapping[str, str]"]):
    """A map of strings, read as a mapping that stands for a token: never read its items."""

    def _read(self, element: _Element) -> Mapping[str, str]:
        return _Unknown(element.get_string_map_attribute(self._name))


class ObjectAttribute(_Attribute["IResolvable"]):
    """A list or set of objects, read as a token; `reference` refers to its members."""

    def _read(self, element: _Element) -> IResolvable:
        return element.interpolation_for_attribute(self._name)
