"""Routing of requests to operations, and the rest of their responses: pages, ETags, errors."""

from __future__ import annotations

import re
import uuid
from collections import defaultdict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from fairway_simulator.batch.model.entity import http_date
from fairway_simulator.batch.wire import bodies
from fairway_simulator.batch.wire.bodies import ServiceError
from fairway_simulator.http import Answer, Request

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fairway_simulator.batch.core import Core
    from fairway_simulator.batch.model.entity import Entity
    from fairway_simulator.http import Reply

API_VERSION = "2025-06-01"
PAGE = 1000
"""The maximum number of entries in a page."""
_JSON = {"Content-Type": "application/json;odata=minimalmetadata"}

Later = Callable[[], Answer]
"""A function that waits for the answer, without the account's lock."""
Handler = Callable[..., "Answer | Later"]
Operation = tuple[str, str, Handler]


class Router:
    """The operations by verb and path; `{…}` in a path stands for one segment. Each is called while
    the account's lock is held, which is notified of changes afterwards."""

    def __init__(self, core: Core, operations: Iterable[Operation]) -> None:
        self._core = core
        self._known: defaultdict[tuple[str, int], list[tuple[str, list[str], Handler]]]
        self._known = defaultdict(list)
        for method, path, handler in operations:
            segments = path.strip("/").split("/")
            self._known[method, len(segments)].append((path, segments, handler))

    def __call__(self, request: Request) -> Reply:
        """Answers a request. Raises CutConnection if a fault leaves it without an answer."""
        own = request.parts[0] == "simulator"
        number, now = str(uuid.uuid4()), self._core.clock.now()
        try:
            handle = self._dispatch if own else self._authenticated
            reply = handle(request) if own else self._core.faults.apply(request, handle)
        except ServiceError as error:
            retry = error.values.pop("retry_after", None)
            headers = _JSON | ({} if retry is None else {"Retry-After": str(retry)})
            reply = Answer(error.wire(), error.status, headers)
            reply.document["message"]["value"] += f"\nRequestId:{number}\nTime:{now}"
        assert isinstance(reply, Answer)
        common = {"request-id": number, "DataServiceVersion": "3.0", "Date": http_date(now)}
        if "client-request-id" in request.headers:
            common["client-request-id"] = request.headers["client-request-id"]
        reply.headers = common | reply.headers
        return reply

    def _authenticated(self, request: Request) -> Answer:
        if "transfer-encoding" in request.headers:
            # See BatchErrorCode.MissingContentLengthHeader in Azure.Compute.Batch.
            raise ServiceError(411, "MissingContentLengthHeader")
        self._core.authenticator.check(request)
        version = request.option("api-version")
        if not version:
            raise ServiceError(
                400, "MissingRequiredQueryParameter", QueryParameterName="api-version"
            )
        if version != API_VERSION:
            raise _bad_query("api-version", version)
        kind = request.headers.get("content-type", "")
        if request.body and not kind.startswith("application/json; odata="):
            raise ServiceError(
                400, "InvalidHeaderValue", HeaderName="Content-Type", HeaderValue=kind
            )
        return self._dispatch(request)

    def _dispatch(self, request: Request) -> Answer:
        path, handler, values = self._find(request)
        request.document = bodies.read(request.method, path, request.body)
        changed = self._core.account.changed
        with changed:
            found = handler(self._core, request, *values)
            if request.method not in ("GET", "HEAD"):
                changed.notify_all()
        return found if isinstance(found, Answer) else found()

    def _find(self, request: Request) -> tuple[str, Handler, list[str]]:
        for path, segments, handler in self._known[request.method, len(request.parts)]:
            pairs = list(zip(segments, request.parts, strict=True))
            if all(wanted[0] == "{" or wanted == given for wanted, given in pairs):
                return path, handler, [given for wanted, given in pairs if wanted[0] == "{"]
        raise ServiceError(404, "ResourceNotFound")


def answer(document: dict[str, Any], status: int = 200) -> Answer:
    return Answer(document, status, {**_JSON})


def entity_answer(request: Request, entity: Entity, document: dict[str, Any]) -> Answer:
    """Returns the requested properties of a document, with its entity's ETag."""
    return Answer(_select(request)(document), headers=_JSON | entity_headers(entity))


def done(status: int, entity: Entity | None = None, url: str = "") -> Answer:
    headers = entity_headers(entity) if entity else {}
    return Answer(None, status, headers | ({"Location": url, "DataServiceId": url} if url else {}))


def entity_headers(entity: Entity) -> dict[str, str]:
    return {"ETag": f'"{entity.etag}"', "Last-Modified": http_date(entity.last_modified)}


def page(
    core: Core,
    request: Request,
    entities: Iterable[tuple[int, Callable[[], dict[str, Any]]]],
) -> Answer:
    """Returns one page of a list, with the parts of OData's `$filter` and `$select` in use.

    `entities` are pairs of an increasing number and a function that builds the entity; the page
    starts after the number in the request's skip token.
    """
    if request.option("maxresults"):
        raise _bad_query("maxresults", request.option("maxresults"))
    after = int(request.option("$skiptoken", "0"))
    keep, chosen = _filter(request.option("$filter")), _select(request)
    values: list[dict[str, Any]] = []
    last = 0
    for number, build in entities:
        if number <= after or not keep(entity := build()):
            continue
        if len(values) == PAGE:
            query = {name: each[0] for name, each in request.query.items()}
            link = urlencode({**query, "$skiptoken": str(last)}, quote_via=quote)
            url = f"{core.account.url}{request.path}?{link}"
            return answer({"value": values, "odata.nextLink": url})
        values.append(chosen(entity))
        last = number
    return answer({"value": values})


def _select(request: Request) -> Callable[[dict[str, Any]], dict[str, Any]]:
    names = request.option("$select").replace(" ", "")
    if not names:
        return lambda entity: entity
    wanted = names.split(",")
    return lambda entity: {name: entity[name] for name in wanted if name in entity}


def _bad_query(name: str, value: str) -> ServiceError:
    details = {"QueryParameterName": name, "QueryParameterValue": value}
    return ServiceError(400, "InvalidQueryParameterValue", **details)


def _filter(text: str) -> Callable[[dict[str, Any]], bool]:
    """Parses a filter that compares one property to a value, the only form that Fairway uses."""
    if not text:
        return lambda _: True
    match = re.fullmatch(r"([A-Za-z/]+) eq '([^']*)'", text)
    if match is None:
        raise _bad_query("$filter", text)

    def keep(entity: dict[str, Any]) -> bool:
        value: Any = entity
        for name in match[1].split("/"):
            value = value.get(name) if isinstance(value, dict) else None
        return bool(value == match[2])

    return keep
