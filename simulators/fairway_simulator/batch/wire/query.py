"""OData as far as the service has it: `$filter`, `$select` and pages."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from fairway_simulator.batch.wire.errors import ServiceError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from fairway_simulator.batch.wire.http import Request

    Test = Callable[[dict[str, Any]], bool]

PAGE = 1000
"""The most entries that one answer has."""


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
    keep = _filter(query.get("$filter", ""))
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


def _filter(text: str) -> Test:
    """Condition on listed entities: the value of a property, as Fairway asks for it."""
    if not text:
        return lambda _: True
    match = re.fullmatch(r"([A-Za-z/]+) eq '([^']*)'", text)
    if match is None:
        raise _bad_query("$filter", text)
    return lambda entity: _field(entity, match[1]) == match[2]


def _field(entity: dict[str, Any], path: str) -> Any:
    value: Any = entity
    for name in path.split("/"):
        if not isinstance(value, dict):
            return None
        value = value.get(name)
    return value
