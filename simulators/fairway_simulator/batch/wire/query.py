"""OData as far as the service has it: `$filter`, `$select` and pages."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from fairway_simulator.batch.clock import parse_time, wire_time
from fairway_simulator.batch.wire.errors import ServiceError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from fairway_simulator.batch.wire.http import Request

    Test = Callable[[dict[str, Any]], bool]

PAGE = 1000
"""The most entries that one answer has."""

_TOKEN = re.compile(
    r"\s*(?:(?P<paren>[(),])|(?P<time>datetime(?:offset)?'[^']*')|'(?P<text>(?:[^']|'')*)'"
    r"|(?P<word>[A-Za-z_][\w/]*)|(?P<number>-?\d+))",
    re.IGNORECASE,
)
_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "eq": lambda left, right: left == right,
    "ne": lambda left, right: left != right,
    "gt": lambda left, right: left is not None and left > right,
    "ge": lambda left, right: left is not None and left >= right,
    "lt": lambda left, right: left is not None and left < right,
    "le": lambda left, right: left is not None and left <= right,
}


def select(query: dict[str, str]) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """What `$select` leaves of an entity."""
    names = query.get("$select", "").replace(" ", "")
    if not names:
        return lambda entity: entity
    wanted = names.split(",")
    return lambda entity: {name: entity[name] for name in wanted if name in entity}


def page(
    request: Request,
    base_url: str,
    entities: Iterable[tuple[int, Callable[[], dict[str, Any]]]],
) -> dict[str, Any]:
    """One page of a list.

    `entities` are pairs of a number that grows and what builds the entity; the page goes on
    after the number in the request's skip token.
    """
    query = request.query
    size = _page_size(query)
    after = _skip_token(query)
    keep = parse_filter(query.get("$filter", ""))
    chosen = select(query)
    values: list[dict[str, Any]] = []
    last = 0
    for number, build in entities:
        if number <= after:
            continue
        entity = build()
        if not keep(entity):
            continue
        if len(values) == size:
            return {"value": values, "odata.nextLink": _next_link(request, base_url, last)}
        values.append(chosen(entity))
        last = number
    return {"value": values}


def _page_size(query: dict[str, str]) -> int:
    text = query.get("maxresults", str(PAGE))
    if not text.isdigit() or not 1 <= int(text) <= PAGE:
        raise _bad_query("maxresults", text)
    return int(text)


def _skip_token(query: dict[str, str]) -> int:
    text = query.get("$skiptoken", "0")
    if not text.isdigit():
        raise _bad_query("$skiptoken", text)
    return int(text)


def _next_link(request: Request, base_url: str, last: int) -> str:
    query = {**request.query, "$skiptoken": str(last)}
    return f"{base_url}{request.path}?{urlencode(query, quote_via=quote)}"


def _bad_query(name: str, value: str) -> ServiceError:
    return ServiceError(
        400,
        "InvalidQueryParameterValue",
        QueryParameterName=name,
        QueryParameterValue=value,
    )


def parse_filter(text: str) -> Test:
    """What an entity must be to be listed; an empty filter lists all."""
    if not text:
        return lambda _: True
    tokens = _tokens(text)
    parser = _Filter(tokens, text)
    test = parser.either()
    if parser.position != len(tokens):
        raise _bad_query("$filter", text)
    return test


def _tokens(text: str) -> Sequence[tuple[str, Any]]:
    tokens: list[tuple[str, Any]] = []
    position = 0
    stripped = text.rstrip()
    while position < len(stripped):
        match = _TOKEN.match(stripped, position)
        if match is None:
            raise _bad_query("$filter", text)
        position = match.end()
        kind = str(match.lastgroup)
        tokens.append((kind, _literal(kind, match[kind], text)))
    return tokens


def _literal(kind: str, value: str, text: str) -> object:
    if kind == "number":
        return int(value)
    if kind == "text":
        return value.replace("''", "'")
    if kind == "time":
        try:
            return wire_time(parse_time(value.split("'")[1]))
        except ValueError:
            raise _bad_query("$filter", text) from None
    return value


class _Filter:
    """A descent through the tokens of a filter."""

    def __init__(self, tokens: Sequence[tuple[str, Any]], text: str) -> None:
        self._all = tokens
        self._text = text
        self.position = 0

    def either(self) -> Test:
        left = self._both()
        while self._accept("or"):
            left = _or(left, self._both())
        return left

    def _both(self) -> Test:
        left = self._one()
        while self._accept("and"):
            left = _and(left, self._one())
        return left

    def _one(self) -> Test:
        if self._accept("not"):
            inner = self._one()
            return lambda entity: not inner(entity)
        if self._accept("("):
            inner = self.either()
            self._expect(")")
            return inner
        if self._accept("startswith"):
            self._expect("(")
            name = self._next("word")
            self._expect(",")
            start = self._next("text")
            self._expect(")")
            return lambda entity: str(_field(entity, name) or "").startswith(start)
        return self._comparison()

    def _comparison(self) -> Test:
        name = self._next("word")
        compare = _COMPARISONS.get(str(self._next("word")).lower())
        if compare is None:
            raise _bad_query("$filter", self._text)
        kind, value = self._take()
        if kind == "word":
            words = {"true": True, "false": False, "null": None}
            if value not in words:
                raise _bad_query("$filter", self._text)
            value = words[value]
        return lambda entity: compare(_field(entity, name), value)

    def _take(self) -> tuple[str, Any]:
        if self.position >= len(self._all):
            raise _bad_query("$filter", self._text)
        self.position += 1
        return self._all[self.position - 1]

    def _next(self, kind: str) -> Any:
        found, value = self._take()
        if found != kind:
            raise _bad_query("$filter", self._text)
        return value

    def _accept(self, word: str) -> bool:
        here = self._all[self.position : self.position + 1]
        if here and here[0][0] in {"word", "paren"} and str(here[0][1]).lower() == word:
            self.position += 1
            return True
        return False

    def _expect(self, word: str) -> None:
        if not self._accept(word):
            raise _bad_query("$filter", self._text)


def _or(left: Test, right: Test) -> Test:
    return lambda entity: left(entity) or right(entity)


def _and(left: Test, right: Test) -> Test:
    return lambda entity: left(entity) and right(entity)


def _field(entity: dict[str, Any], path: str) -> Any:
    value: Any = entity
    for name in path.split("/"):
        if not isinstance(value, dict):
            return None
        value = value.get(name)
    return value
