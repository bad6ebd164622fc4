"""Checks of the library's arguments: one that its annotation does not allow is refused, by name."""

from __future__ import annotations

import builtins
import math
import re
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import is_dataclass, replace
from functools import cache, wraps
from importlib import import_module
from inspect import currentframe, signature
from ipaddress import IPv4Network
from linecache import getline
from pathlib import Path
from traceback import walk_stack
from types import FunctionType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

from pydantic import AfterValidator

from fairway_core.documents import FieldError
from fairway_core.environment.values import ip_range
from fairway_core.findings import Finding, Location, UserError, refuse_change
from fairway_core.light_fields import Check
from fairway_core.suggestions import did_you_mean
from fairway_core.validation import describe

T = TypeVar("T", bound=Callable[..., object])

# cdktf represents numbers that only Terraform will know by values below this one.
_TOKENS = -1e200

_HINTS = {
    "IPv4Network": 'write ipaddress.IPv4Network("10.40.0.0/16")',
    "Sequence[str]": 'write a list: ["…"]',
    "SubnetRef": 'write network.subnet("compute")',
    "VmSize": 'write "Standard_ND96isr_H100_v5"',
}


def checked(made: T) -> T:
    """Makes a function, or a class and its public methods, raise UserError for an argument of
    another type than annotated, or one that a validator of its type refuses.

    Any UserError that it raises then has the line of the program that called it.

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
        if is_dataclass(made) and made.__dataclass_params__.frozen:  # type: ignore[attr-defined]
            made.__setattr__ = refuse_change  # type: ignore[method-assign]
        for name, each in list(vars(made).items()):
            if name == "__init__" or not name.startswith("_"):
                if isinstance(each, FunctionType):
                    setattr(made, name, checked(each))
                elif isinstance(each, classmethod):
                    setattr(made, name, classmethod(checked(each.__func__)))
        return made

    @wraps(made)
    def checking(*args: Any, **named: Any) -> Any:
        given = _check(made, args, named)
        try:
            return made(*args, **named)
        except FieldError as error:
            finding = Finding("bad-argument", str(error), error.hint, _dotted(error.path))
            raise UserError(_located([finding], given)) from None
        except UserError as error:
            raise error.with_findings(_located(error.findings, given)) from error.__cause__

    return checking  # type: ignore[return-value]  # it takes the arguments of `made`


def called(made: T) -> T:
    """Makes a function raise UserError for a call without an argument that it needs, or with one
    that it does not have. A call that is right takes no longer."""

    @wraps(made)
    def calling(*args: Any, **named: Any) -> Any:
        try:
            return made(*args, **named)
        except TypeError:
            _bound(made, args, named)
            raise

    return calling  # type: ignore[return-value]  # as above


_signature = cache(signature)
_OF_STACK = ("environment", "location", "naming", "protect", "proxy", "ssh_keys", "tags", "zone")


def _shown(function: Callable[..., object]) -> tuple[str, str]:
    """Returns the function's name, or that of the class that it initializes, and a hint."""
    made = function.__qualname__.removesuffix(".__init__").rpartition("<locals>.")[2]
    return made, f"help({made}) lists its arguments"


def _bound(
    function: Callable[..., object], args: tuple[Any, ...], named: dict[str, Any]
) -> dict[str, Any]:
    """Returns the arguments of a call by name. Raises UserError for one that Python refuses."""
    expected = _signature(function)
    try:
        return dict(expected.bind(*args, **named).arguments)
    except TypeError as error:
        made, hint = _shown(function)
        unknown = next(iter(named.keys() - expected.parameters.keys()), "")
        near = unknown and did_you_mean(unknown, expected.parameters, most=0)
        if unknown in _OF_STACK:
            near = f"it is the stack's: EnvironmentStack(…, {unknown}=…)"
        raise refused("unknown-argument", f"{made}: {error}", near or hint, unknown) from None


def _check(
    function: Callable[..., object], args: tuple[Any, ...], named: dict[str, Any]
) -> dict[str, Any]:
    given = _bound(function, args, named)
    expected, module, (made, hint) = _signature(function), function.__module__, _shown(function)
    if id := expected.parameters.get("id"):
        given.setdefault("id", id.default)
    # The argument that identifies a construct within its scope.
    own = next((each for each in ("id", "name") if each in given), "") if "scope" in given else ""
    for name, value in given.items():
        parameter = expected.parameters[name]
        if parameter.annotation is parameter.empty or parameter.kind is parameter.VAR_POSITIONAL:
            continue
        if name == own and isinstance(value, str) and (not value or _is_reference(value)):
            why = f"is `{value}`, which only Terraform will know" if value else "is empty"
            message, path = f"`{name}` of {made} {why}", _path({"scope": given["scope"]})
            raise refused("bad-id", message, "write text, for example train", path)
        takes = str(parameter.annotation)
        if _fits_by_name(value, takes):
            continue
        kind = _type(takes, module)
        try:
            if _fits(value, kind):
                continue
        except FieldError as error:
            path = _dotted([_path(given), name, *error.path])
            message, hint = f"`{name}` of {made}: {error}", error.hint or hint
            raise refused("bad-argument", message, hint, path, hidden=error.secret) from None
        takes = _bare(takes, module)
        message = f"`{name}` of {made} takes `{takes}`, not {_described(value)}"
        hint = _hint(value, takes, _strings(kind)) or hint
        raise refused("wrong-argument", message, hint, _dotted([_path(given), name]))
    return given


_OF_RESOURCES = {
    "str": str,
    "bool": bool,
    "float": float,
    "Mapping[str, str]": Mapping[str, str],
    "Sequence[str]": Sequence[str],
    "Sequence[float]": Sequence[float],
}


def check_plain(of: str, name: str, value: object, annotation: str) -> None:
    """Raises UserError for a plain argument of a resource that its annotation does not allow."""
    takes = annotation.removesuffix(" | None")
    kind = _OF_RESOURCES.get(takes)
    if value is None or kind is None or _is_reference(value) or _fits(value, kind):
        return
    message = f"`{name}` of {of} takes `{takes}`, not {_described(value)}"
    raise refused("wrong-argument", message, _hint(value, takes, ()) or f"write a {takes}", "")


def _fits_by_name(value: Any, takes: str) -> bool:
    """Returns True if a plain annotation names the value's class; no type is resolved for it."""
    if value is None:
        return takes.endswith("None")
    if "[" in takes or "IPv4Network" in takes or isinstance(value, int | float):
        return False
    names = takes.split(" | ")
    if isinstance(value, str):  # never by a program's class with the name of a type of ours
        return "str" in names
    return not {each.__name__ for each in type(value).__mro__}.isdisjoint(names)


def _bare(annotation: str, module: str) -> str:
    """Returns the annotation with aliases such as `Email` replaced by their types."""
    for name in re.findall(r"\w+", annotation):
        if plain := plain_type(_named(name, module)):
            annotation = re.sub(rf"\b{name}\b", plain, annotation)
    return annotation


def plain_type(kind: Any) -> str:
    """Returns the type behind an alias such as `Email` or `Zone`; "" for a type itself.

    >>> from fairway_core.fields import Count
    >>> plain_type(Count), plain_type(Literal[1, 2]), plain_type(int)
    ('int', 'Literal[1, 2]', '')
    """
    if get_origin(kind) is Literal:
        return f"Literal[{', '.join(map(repr, get_args(kind)))}]"
    if get_origin(kind) is not Annotated:
        return ""
    inside = get_args(kind)[0]
    items = [plain_type(each) or each.__name__ for each in get_args(inside)]
    return f"{inside.__name__}[{', '.join(items)}]" if items else str(inside.__name__)


def _dotted(path: Sequence[str | int]) -> str:
    return ".".join(str(each) for each in path if each != "")


def refused(id: str, message: str, hint: str, path: str = "", *, hidden: bool = False) -> UserError:
    """Returns an error at the line of the program that called the library."""
    (finding,) = _located([Finding(id, message, hint)], {}, path)
    if hidden and finding.location:
        finding = replace(finding, location=finding.location.hidden)
    return UserError([finding])


def _located(
    findings: Iterable[Finding], given: Mapping[str, Any], path: str = ""
) -> list[Finding]:
    """Returns the findings, those without a location at the line of the program that called the
    library, unless that is Fairway's own."""
    frames = (
        (frame.f_globals.get("__name__", ""), frame.f_code.co_filename, line)
        for frame, line in walk_stack(currentframe())
    )
    outside = (each for each in frames if not each[0].startswith(("fairway_constructs.", "jsii.")))
    module, file, line = next(outside, ("", "", 0))
    if module.startswith("fairway_"):
        text = ""
    else:
        findings = [replace(each, hint=_in_python(each.hint)) for each in findings]
        text = getline(file, line).rstrip("\n")
    location = Location.of_line(file, line, text) if text else None
    return [
        each
        if each.location or not (location or path)
        else replace(each, path=path or _dotted([_path(given), each.path]), location=location)
        for each in findings
    ]


def _in_python(hint: str) -> str:
    """Returns the hint with keys of a file as arguments.

    >>> _in_python("leave `accounting: false` out, or `image:`")
    'leave `accounting=False` out, or `image=`'
    """
    return re.sub(r"`([a-z_]+): ?([^`]*)`", lambda m: f"`{m[1]}={_written(m[2])}`", hint)


def _written(value: str) -> str:
    plain = re.fullmatch(r"[0-9.]*|[\[{].*", value)
    return {"true": "True", "false": "False"}.get(value) or (value if plain else f'"{value}"')


def _path(given: Mapping[str, Any]) -> str:
    """Returns the path of the new construct, or of the method's construct; "" for a function."""
    around = given.get("scope", given.get("self"))
    inside = str(getattr(getattr(around, "node", None), "path", ""))
    if not inside and "scope" not in given:
        return ""
    ids = [str(given[each]) for each in ("id", "name") if given.get(each)]
    return "/".join(filter(None, [inside, *ids]))


class _Named:
    """The base of a class of which only the name is known."""

    def __class_getitem__(cls, of: object) -> object:
        return Any


_KNOWN = {"Callable": Callable, "Collection": Collection, "Iterable": Iterable}
_KNOWN |= {"Mapping": Mapping, "Sequence": Sequence}


@cache
def _type(annotation: str, module: str) -> Any:
    """Returns an annotation's type; a module may import its names for type checkers only."""
    names = re.findall(r"\b[A-Za-z_]\w*", annotation)
    return eval(annotation, {name: _named(name, module) for name in names})  # noqa: S307  # ours


def _named(name: str, module: str) -> Any:
    for known in (vars(builtins), _KNOWN, vars(sys.modules[module])):
        if name in known:
            return known[name]
    origin, original = _imports(module).get(name, ("", ""))
    if not origin:
        return Any
    if origin.startswith("fairway_constructs.") and origin not in sys.modules:
        return type(name, (_Named,), {})  # no instance exists yet
    return getattr(import_module(origin), original)


_IMPORT = re.compile(r"^ +from (\S+) import (?:\(([^)]*)\)|(.+))$", re.M)


@cache
def _imports(module: str) -> dict[str, tuple[str, str]]:
    """Returns the names that a module imports in blocks, each with its module and name there."""
    text = Path(str(sys.modules[module].__file__)).read_text(encoding="utf-8")
    pairs = (
        (origin, each.split())
        for origin, several, one in _IMPORT.findall(text)
        for each in (several or one).split(",")
    )
    return {words[-1]: (origin, words[0]) for origin, words in pairs if words}


def _fits(value: Any, kind: Any) -> bool:
    """Returns True if a type allows the value, or cannot be checked. Raises FieldError if one of
    its validators refuses the value."""
    origin, parts = get_origin(kind), get_args(kind)
    if hasattr(value, "creation_stack"):  # a token of cdktf: only Terraform will know its value
        return True
    if origin is Annotated:
        return _fits(value, parts[0]) and (_is_reference(value) or _is_accepted(value, kind))
    if origin in (Union, UnionType):
        if isinstance(value, str) and IPv4Network in parts and str in parts:
            return ip_range(value) is not None
        # Validators last: they are not called for values that another type allows.
        last = sorted(parts, key=lambda each: hasattr(each, "__metadata__"))
        return any(_fits(value, each) for each in last)
    if origin is Literal:  # for Python True and 1.0 equal 1
        return not isinstance(value, bool | float) and value in parts
    if origin in (Mapping, dict, Sequence, Collection, Iterable, list, tuple):
        return _holds(value, origin, parts)
    return _is_one(value, kind)


def _is_accepted(value: Any, kind: Any) -> bool:
    """Returns True. Raises FieldError if a validator of the type refuses the value."""
    for each in kind.__metadata__:
        if isinstance(each, AfterValidator | Check):
            each.func(value)  # type: ignore[call-arg]  # none of our validators takes more
        for bound in getattr(each, "metadata", ()):
            least, most = getattr(bound, "ge", -math.inf), getattr(bound, "le", math.inf)
            if not least <= value <= most:
                word, limit = ("least", least) if value < least else ("most", most)
                raise FieldError(f"{value} is no number of at {word} {limit}", f"write {limit}")
    return True


def _holds(value: Any, origin: Any, parts: Sequence[Any]) -> bool:
    """Returns True if a mapping or a list has items of these types."""
    if origin in (Mapping, dict):
        pairs = value.items() if isinstance(value, Mapping) else [(None, None)]
        return all(_fits(one, parts[0]) and _fits(other, parts[1]) for one, other in pairs)
    if origin is tuple and ... not in parts:
        fits = isinstance(value, tuple | list) and len(value) == len(parts)
        return fits and all(map(_fits, value, parts))
    # A second pass over a generator finds nothing, and sets have no order.
    several = Sequence if origin in (list, tuple) else origin
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, several):
        return False
    return not isinstance(value, Collection) or all(_fits(each, parts[0]) for each in value)


def _is_one(value: Any, kind: Any) -> bool:
    is_infinite = isinstance(value, float) and not math.isfinite(value)
    if kind in (int, float) and (isinstance(value, bool) or is_infinite):
        return False
    if kind is float:
        return isinstance(value, int | float)
    if get_origin(kind) is Callable:
        return callable(value)
    if isinstance(kind, type) and issubclass(kind, _Named):
        return any(each.__name__ == kind.__name__ for each in type(value).__mro__)
    # Implementations of jsii's interfaces cannot be recognized.
    is_interface = getattr(kind, "_is_protocol", False)
    if kind is Any or (is_interface and not getattr(kind, "_is_runtime_protocol", False)):
        return True
    return not isinstance(kind, type) or isinstance(value, kind)


def _is_reference(value: Any) -> bool:
    """Returns True if only Terraform will know the value."""
    if isinstance(value, str):
        return "${" in value
    return isinstance(value, float) and value < _TOKENS


def _strings(kind: Any) -> list[str]:
    """Returns the strings that a type allows, if it lists them."""
    parts = get_args(kind)
    return [each for each in parts if isinstance(each, str)] + [
        text for each in parts if not isinstance(each, str) for text in _strings(each)
    ]


def _described(value: Any) -> str:
    if isinstance(value, list | tuple | Mapping):
        items = value.values() if isinstance(value, Mapping) else value
        kinds = sorted({f"`{type(each).__name__}`" for each in items})
        return f"{describe(value)} of {' and '.join(kinds)}" if kinds else describe(value)
    if isinstance(value, float) and _is_reference(value):
        return "a value that only Terraform will know"
    known = isinstance(value, str | int | float | None)
    return describe(value) if known else f"a {type(value).__name__}"


def _hint(value: Any, takes: str, choices: Sequence[str]) -> str:
    if isinstance(value, str) and choices:
        return did_you_mean(value, choices)
    if isinstance(value, float) and _is_reference(value):
        return "write a number"  # Python computes with it
    if isinstance(value, int) and takes.startswith("str"):
        return f'write "{value}"'
    return next((hint for name, hint in _HINTS.items() if name in takes), "")
