"""Evaluates those of Terraform's expressions that the stacks of an environment use."""

from __future__ import annotations

import base64
import gzip
import hashlib
import re
from collections.abc import Callable
from typing import Any

# Returns the value of a reference such as `azurerm_subnet.compute.id`, given its parts.
Lookup = Callable[[tuple[str, ...]], Any]

_TOKEN = re.compile(
    r'\s*(?:(?P<text>"(?:[^"\\]|\\.)*")|(?P<number>\d+)|(?P<name>[A-Za-z_][\w-]*)|(?P<sign>.))',
    re.DOTALL,
)
_CONSTANTS = {"null": None, "true": True, "false": False}
_ESCAPES = {"n": "\n", "t": "\t", '"': '"', "\\": "\\"}

_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "base64decode": lambda text: base64.b64decode(text).decode(),
    "base64encode": lambda text: base64.b64encode(text.encode()).decode(),
    "base64gzip": lambda text: base64.b64encode(gzip.compress(text.encode())).decode(),
    "join": lambda between, parts: between.join(parts),
    "replace": lambda text, old, new: text.replace(old, new),
    "sha256": lambda text: hashlib.sha256(text.encode()).hexdigest(),
    "substr": lambda text, start, length: text[start : start + length],
    "try": lambda *values: next((value for value in values if value is not None), None),
}


def fill_in(value: Any, lookup: Lookup) -> Any:
    """Returns a value of a stack with all its references filled in.

    Raises ValueError for an unknown expression, and KeyError for an unknown function.

    >>> fill_in({"a": ["${b.c.id}/x"]}, ".".join)
    {'a': ['b.c.id/x']}
    """
    if isinstance(value, dict):
        return {key: fill_in(each, lookup) for key, each in value.items()}
    if isinstance(value, list):
        return [fill_in(each, lookup) for each in value]
    return _template(value, lookup) if isinstance(value, str) and "${" in value else value


def _template(text: str, lookup: Lookup) -> Any:
    """Evaluates a text with expressions in `${…}`; a single expression keeps its own type."""
    parts: list[Any] = []
    while (start := text.find("${")) >= 0:
        parser = _Parser(text, start + 2, lookup)
        value = parser.value()
        parser.expect("}")
        parts += [text[:start], value]
        text = text[parser.at :]
    parts = [part for part in [*parts, text] if part != ""]
    return parts[0] if len(parts) == 1 else "".join(map(str, parts))


class _Parser:
    """Parser of one expression at a position of a text."""

    def __init__(self, text: str, at: int, lookup: Lookup) -> None:
        self._text, self.at, self._lookup = text, at, lookup

    def value(self) -> Any:
        token = self._next()
        if token["text"]:
            inner = re.sub(r"\\(.)", lambda each: _ESCAPES[each[1]], token["text"][1:-1])
            return _template(inner, self._lookup)
        if token["number"]:
            return int(token["number"])
        if token["sign"] == "[":
            return self._list("]")
        if not token["name"]:
            raise ValueError(f"an expression is not understood at {self._text[self.at - 20 :]!r}")
        if token["name"] in _CONSTANTS:
            return _CONSTANTS[token["name"]]
        if self._take("("):
            return _FUNCTIONS[token["name"]](*self._list(")"))
        return self._lookup(self._reference(token["name"]))

    def expect(self, sign: str) -> None:
        if not self._take(sign):
            raise ValueError(f"`{sign}` is missing at {self._text[self.at - 20 :]!r}")

    def _reference(self, first: str) -> tuple[str, ...]:
        parts = [first]
        while True:
            if self._take("."):
                parts.append(self._next()[0].strip())
            elif self._take("["):
                parts.append(str(self.value()))
                self.expect("]")
            else:
                return tuple(parts)

    def _list(self, end: str) -> list[Any]:
        values: list[Any] = []
        while not self._take(end):
            values.append(self.value())
            self._take(",")
        return values

    def _take(self, sign: str) -> bool:
        token = _TOKEN.match(self._text, self.at)
        if token is None or token["sign"] != sign:
            return False
        self.at = token.end()
        return True

    def _next(self) -> re.Match[str]:
        token = _TOKEN.match(self._text, self.at)
        if token is None:
            raise ValueError(f"an expression ends too soon: {self._text!r}")
        self.at = token.end()
        return token
