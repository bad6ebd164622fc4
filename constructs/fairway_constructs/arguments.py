"""Arguments of the library: one that its annotation does not allow is refused, by its name."""

from __future__ import annotations

import ast
import builtins
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cache, wraps
from importlib import import_module
from inspect import Signature, getsource, signature
from ipaddress import IPv4Network
from linecache import getline
from traceback import walk_stack
from types import FunctionType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin

from fairway_core.findings import Finding, Location, UserError
from fairway_core.suggestions import did_you_mean
from fairway_core.validation import describe

T = TypeVar("T", bound=Callable[..., object])

# Numbers of which only Terraform will know the value are below it in cdktf.
_TOKENS = -1e200

_HINTS = {
    "Image": 'write az.image("ubuntu-hpc-2404")',
    "IPv4Network | str": "a range is its first address and its length: 10.40.0.0/16",
    "IPv4Network": 'write ipaddress.IPv4Network("10.40.0.0/16")',
    "Sequence[str]": 'write a list: ["…"]',
    "SubnetRef": 'write network.subnet("compute")',
    "VmSize": 'write az.vm_size("Standard_ND96isr_H100_v5")',
}


def checked(made: T) -> T:
    """Has a function, or a class and its public methods, raise UserError for an argument of another
    type than annotated.

    >>> @checked
    ... def double(*, nodes: int) -> int:
    ...     return 2 * nodes
    >>> double(nodes="2")
    Traceback (most recent call last):
    ...
    fairway_core.findings.UserError: `nodes` of double takes `int`, not the text `2`
      help(double) lists its arguments
    """
    if isinstance(made, type):
        for name, each in list(vars(made).items()):
            if name == "__init__" or not name.startswith("_"):
                if isinstance(each, FunctionType):
                    setattr(made, name, checked(each))
                elif isinstance(each, classmethod):
                    setattr(made, name, classmethod(checked(each.__func__)))
        return made

    @wraps(made)
    def checking(*args: Any, **named: Any) -> Any:
        _check(made, args, named)
        return made(*args, **named)

    return checking  # type: ignore[return-value]  # it takes what `made` takes


@cache
def _signature(function: Callable[..., object]) -> Signature:
    return signature(function)


def _check(function: Callable[..., object], args: tuple[Any, ...], named: dict[str, Any]) -> None:
    expected, module = _signature(function), function.__module__
    made = function.__qualname__.removesuffix(".__init__").rpartition("<locals>.")[2]
    hint = f"help({made}) lists its arguments"
    try:
        given = expected.bind(*args, **named).arguments
    except TypeError as error:
        unknown = next(iter(named.keys() - expected.parameters.keys()), "")
        near = unknown and did_you_mean(unknown, expected.parameters, most=0)
        raise _refused("unknown-argument", f"{made}: {error}", near or hint, unknown) from None
    for name, value in given.items():
        parameter = expected.parameters[name]
        if parameter.annotation is parameter.empty or parameter.kind is parameter.VAR_POSITIONAL:
            continue
        takes = str(parameter.annotation)
        if not (
            _fits_by_name(value, takes)
            or _fits(value, _type(takes, module))
            or _fits(value, _type(takes, module, imports=True))
        ):
            message = f"`{name}` of {made} takes `{takes}`, not {_described(value)}"
            hint = _hint(value, takes, _strings(_type(takes, module, imports=True))) or hint
            raise _refused("wrong-argument", message, hint, f"{_path(given)}.{name}".strip("."))


def _fits_by_name(value: Any, takes: str) -> bool:
    """True if a plain annotation names the value's class, which needs no look at the types."""
    if value is None:
        return takes.endswith("None")
    if "[" in takes or "IPv4Network" in takes:
        return False
    return not {each.__name__ for each in type(value).__mro__}.isdisjoint(takes.split(" | "))


def _refused(id: str, message: str, hint: str, path: str) -> UserError:  # noqa: A002
    """The error, at the line of the program that is nearest to it and none of the library's."""
    outside = (
        (frame.f_code.co_filename, line)
        for frame, line in walk_stack(None)
        if not frame.f_globals.get("__name__", "").startswith(("fairway_constructs.", "jsii."))
    )
    file, line = next(outside, ("", 0))
    text = getline(file, line).rstrip("\n")
    location = Location.of_line(file, line, text) if text else None
    if location is not None:
        location = Location(file, line, location.column, text, location.length)
    return UserError([Finding(id, message, hint, path, location=location)])


def _path(given: Mapping[str, Any]) -> str:
    """The path of the construct that is made, or whose method is called."""
    around = (given.get(each) for each in ("scope", "self"))
    inside = next((vars(each)["_inside"] for each in around if "_inside" in _vars(each)), None)
    path = [inside.stack.node.id, *inside.path] if inside else []
    return "/".join([*path, *(str(given[each]) for each in ("id", "name") if each in given)])


def _vars(value: object) -> Mapping[str, object]:
    return getattr(value, "__dict__", {})


class _Named:
    """The base of a class of which no more is known than its name."""

    def __class_getitem__(cls, of: object) -> object:
        return Any


_KNOWN = {"Callable": Callable, "Collection": Collection, "Iterable": Iterable}
_KNOWN |= {"Mapping": Mapping, "Sequence": Sequence}


@cache
def _type(annotation: str, module: str, *, imports: bool = False) -> Any:
    """The type; with `imports` also of names that are imported for type checkers alone."""
    names = [each.id for each in ast.walk(ast.parse(annotation)) if isinstance(each, ast.Name)]
    known = {name: _named(name, module, imports=imports) for name in names}
    return eval(annotation, known)  # noqa: S307  # of a signature of ours


def _named(name: str, module: str, *, imports: bool) -> Any:
    for known in (vars(builtins), _KNOWN, vars(sys.modules[module])):
        if name in known:
            return known[name]
    if not imports:
        return type(name, (_Named,), {})
    if name not in _imports(module):
        return Any
    place, original = _imports(module)[name]
    return getattr(import_module(place), original)


@cache
def _imports(module: str) -> dict[str, tuple[str, str]]:
    """The names that the text of a module imports, each with its module and its name there."""
    return {
        each.asname or each.name: (node.module, each.name)
        for node in ast.walk(ast.parse(getsource(sys.modules[module])))
        if isinstance(node, ast.ImportFrom) and node.module
        for each in node.names
    }


def _fits(value: Any, kind: Any) -> bool:
    """True if a type allows the value, or says nothing of it that can be checked."""
    origin, parts = get_origin(kind), get_args(kind)
    if hasattr(value, "creation_stack"):  # cdktf's: only Terraform will know its value
        return True
    if origin in (Union, UnionType):
        if isinstance(value, str) and IPv4Network in parts and str in parts:
            return _is_range(value)
        return any(_fits(value, each) for each in parts)
    if origin is Literal:
        return value in parts
    if origin in (Mapping, dict):
        pairs = value.items() if isinstance(value, Mapping) else [(None, None)]
        return all(_fits(one, parts[0]) and _fits(other, parts[1]) for one, other in pairs)
    if origin is tuple and ... not in parts:
        fits = isinstance(value, tuple | list) and len(value) == len(parts)
        return fits and all(map(_fits, value, parts))
    if origin in (Sequence, Collection, Iterable, list, tuple):
        # Of two passes over a generator the second finds nothing, and sets have no order.
        several = Sequence if origin in (list, tuple) else origin
        if isinstance(value, str | bytes) or not isinstance(value, several):
            return False
        return not isinstance(value, Collection) or all(_fits(each, parts[0]) for each in value)
    return _is_one(value, kind)


def _is_one(value: Any, kind: Any) -> bool:
    if kind is float or (kind is int and isinstance(value, float) and value < _TOKENS):
        return isinstance(value, int | float)
    if get_origin(kind) is Callable:
        return callable(value)
    if isinstance(kind, type) and issubclass(kind, _Named):
        return any(each.__name__ == kind.__name__ for each in type(value).__mro__)
    # Of an interface of jsii's nobody can tell who has it.
    is_interface = getattr(kind, "_is_protocol", False)
    if kind is Any or (is_interface and not getattr(kind, "_is_runtime_protocol", False)):
        return True
    return not isinstance(kind, type) or isinstance(value, kind)


def _is_range(text: str) -> bool:
    try:
        IPv4Network(text)
    except ValueError:
        return False
    return True


def _strings(kind: Any) -> list[str]:
    """The texts that a type allows, where it lists them."""
    parts = get_args(kind)
    return [each for each in parts if isinstance(each, str)] + [
        text for each in parts if not isinstance(each, str) for text in _strings(each)
    ]


def _described(value: Any) -> str:
    if isinstance(value, list | tuple | Mapping):
        items = value.values() if isinstance(value, Mapping) else value
        kinds = sorted({f"`{type(each).__name__}`" for each in items})
        return f"{describe(value)} of {' and '.join(kinds)}" if kinds else describe(value)
    known = isinstance(value, str | int | float | None)
    return describe(value) if known else f"a {type(value).__name__}"


def _hint(value: Any, takes: str, choices: Sequence[str]) -> str:
    """A hint on the type that an argument takes; "" where there is none."""
    if isinstance(value, str) and choices:
        return did_you_mean(value, choices)
    if isinstance(value, int) and takes.startswith("str"):
        return f'write "{value}"'
    return next((hint for name, hint in _HINTS.items() if name in takes), "")
