"""Values of Terraform's JSON as expressions of HCL, in the layout of `terraform fmt`."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from fairway_constructs.hcl.templates import quoted, split, string

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

_WIDTH = 100
_IDENTIFIER = re.compile(r"[A-Za-z_][\w-]*")
_KEYWORDS = frozenset({"for", "true", "false", "null"})


def expression(value: Any, indent: str) -> str:
    """Returns the value as an expression; lines after its first begin with `indent`.

    >>> print(expression({"a": 1, "long": ["${b.id}", "c"]}, ""))
    {
      a    = 1
      long = [b.id, "c"]
    }
    """
    match value:
        case str():
            return string(value, indent)
        case dict():
            return _mapping(value, indent)
        case list():
            return sequence([_item(each, f"{indent}  ") for each in value], indent)
        case _:
            return json.dumps(value)


def _item(value: Any, indent: str) -> str:
    """Returns the value as an item of a list, in which no comma can follow a heredoc."""
    text = expression(value, indent)
    return f'"{quoted(value)}"' if text.startswith("<<") else text


def sequence(items: list[str], indent: str) -> str:
    """Returns a list of expressions, on one line if they fit."""
    line = f"[{', '.join(items)}]"
    if len(indent + line) <= _WIDTH and "\n" not in line:
        return line
    return "\n".join(["[", *(f"{indent}  {item}," for item in items), f"{indent}]"])


def _mapping(value: Mapping[str, Any], indent: str) -> str:
    if not value:
        return "{}"
    inner = f"{indent}  "
    pairs = ((_key(name), expression(each, inner)) for name, each in value.items())
    return "\n".join(["{", *assignments(pairs, inner), f"{indent}}}"])


def _key(name: str) -> str:
    if _IDENTIFIER.fullmatch(name) and name not in _KEYWORDS:
        return name
    is_expression = len(split(name)) == 1 and name.startswith("${")
    return f"({name[2:-1]})" if is_expression else f'"{quoted(name)}"'


def assignments(pairs: Iterable[tuple[str, str]], indent: str) -> Iterator[str]:
    """Yields lines `name = value`; the signs of consecutive lines are aligned."""
    column: list[tuple[str, str]] = []
    for name, value in pairs:
        if "\n" not in value or value.startswith("<<"):
            column.append((name, value))
        else:  # the value's brackets span several lines
            yield from _aligned(column, indent)
            yield f"{indent}{name} = {value}"
            column = []
    yield from _aligned(column, indent)


def _aligned(column: list[tuple[str, str]], indent: str) -> Iterator[str]:
    width = max((len(name) for name, _ in column), default=0)
    for name, value in column:
        yield f"{indent}{name:<{width}} = {value}"
