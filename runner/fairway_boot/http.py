"""HTTP with Azure's services: one client, with the retries that they ask for."""

from __future__ import annotations

import json
import re
import ssl
import time
import urllib.error
import urllib.request
from contextlib import suppress
from dataclasses import dataclass
from http.client import HTTPException, IncompleteRead
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from http.client import HTTPResponse
    from typing import TypeVar

    T = TypeVar("T")

_TRIES = 8
_FIRST_PAUSE = 0.5  # seconds; each pause is twice the last one
_LONGEST_WAIT = 60.0
_TIMEOUT = 60.0  # seconds without receiving a byte
_MOST = 1 << 26  # bytes of an answer
_TRANSIENT = frozenset({408, 429, 500, 502, 503, 504})
# Another change of the same resource is in progress. An exhausted quota is a conflict too.
_CONFLICTS = frozenset({409, 412})
_LASTING = re.compile(r"quota|SkuNotAvailable|AllocationFailed", re.IGNORECASE)


class Failure(Exception):
    """Error of a service that refused, or failed: its HTTP status, or 0, and the error's code.
    `retry_after` is for how many seconds it asks not to be called."""

    def __init__(
        self, status: int, code: str, message: str, retry_after: float | None = None
    ) -> None:
        self.status = status
        self.retry_after = retry_after
        self.code = code
        self.message = message
        super().__init__(f"{code}: {message}")

    @property
    def may_pass(self) -> bool:
        """True if another try may succeed soon."""
        if self.status in _CONFLICTS:
            return not _LASTING.search(str(self))
        return self.status in (0, *_TRANSIENT)


@dataclass(frozen=True)
class Answer:
    """Headers in lower case, and JSON of an answer; an empty body is {}."""

    headers: dict[str, str]
    body: Any


def send(
    method: str,
    url: str,
    *,
    headers: dict[str, str] | None = None,
    body: object = None,
    form: Mapping[str, str] | None = None,
    authority: str = "",
    tries: int = _TRIES,
    timeout: float = _TIMEOUT,
    passing: Collection[int] = (),
    most: int = _MOST,
) -> Answer:
    """Sends a request, with retries, and returns the answer. Raises Failure for an error, or more
    than `most` bytes. The request has the `body` as JSON, or the fields of the `form`. `authority`
    is a file of certificates to trust; `passing` are statuses that are temporary for this
    service."""
    data = None if body is None else json.dumps(body).encode()
    asks = {"Accept": "application/json", **(headers or {})}
    if data is not None:
        asks["Content-Type"] = "application/json"
    if form is not None:
        data = urlencode(form).encode()
        asks["Content-Type"] = "application/x-www-form-urlencoded"
    request = _request(method, url, asks, data)

    def ask() -> Answer:
        try:
            with _open(request, authority, timeout) as response:
                text = response.read(most + 1)
                if len(text) > most:
                    raise Failure(0, "BadAnswer", f"{method} {url}: more than {most:,} bytes")
                # With a size, read() does not raise this for a truncated answer.
                if response.length:
                    raise IncompleteRead(text, response.length)
                head = {name.lower(): value for name, value in response.headers.items()}
                return Answer(head, json.loads(text) if text.strip() else {})
        except (OSError, ValueError, HTTPException) as error:
            raise Failure(0, "NoAnswer", f"{method} {url}: {error}") from None

    return _patiently(ask, tries, passing)


def stream(url: str, headers: dict[str, str]) -> HTTPResponse:
    """Opens an address, for the caller to read and close. Raises Failure if nothing is there. The
    caller handles a connection that breaks while it reads."""
    request = _request("GET", url, headers, None)

    def ask() -> HTTPResponse:
        try:
            return _open(request, "", _TIMEOUT)
        except (OSError, ValueError) as error:
            raise Failure(0, "NoAnswer", str(error)) from None

    return _patiently(ask, _TRIES, ())


def _patiently(ask: Callable[[], T], tries: int, passing: Collection[int]) -> T:
    """Retries a request if the service is overloaded, busy or failing for the moment, after the
    time that it names, or else with exponential backoff. Every request of ours may be sent
    twice."""
    for attempt in range(tries):
        try:
            return ask()
        except Failure as failure:
            if not (failure.may_pass or failure.status in passing) or attempt == tries - 1:
                raise
            wait = failure.retry_after
            time.sleep(min(_LONGEST_WAIT, _FIRST_PAUSE * 2**attempt if wait is None else wait))
    raise AssertionError("unreachable")


def _request(
    method: str, url: str, headers: dict[str, str], data: bytes | None
) -> urllib.request.Request:
    if not url.startswith(("https://", "http://")):
        raise Failure(0, "BadUrl", url)
    return urllib.request.Request(url, data=data, headers=headers, method=method)  # noqa: S310


def _open(request: urllib.request.Request, authority: str, timeout: float) -> HTTPResponse:
    """Returns the answer, unless it is an error."""
    handlers: list[urllib.request.BaseHandler] = []
    if request.full_url.startswith("https://"):
        context = ssl.create_default_context(cafile=authority or None)
        handlers.append(urllib.request.HTTPSHandler(context=context))
    else:
        # Never through a proxy: the service is this machine's own, or on a loopback address.
        handlers.append(urllib.request.ProxyHandler({}))
    try:
        found: HTTPResponse = urllib.request.build_opener(*handlers).open(request, timeout=timeout)
    except urllib.error.HTTPError as error:
        wait = None
        with error:
            with suppress(ValueError):  # may be a date, but not in Azure's answers here
                wait = max(0.0, float(error.headers.get("Retry-After") or ""))
            text = error.read()
        try:
            body = json.loads(text)
        except ValueError:
            body = {}
        why = body.get("error", {}) if isinstance(body, dict) else {}
        if not isinstance(why, dict):
            why = {"code": why, "message": body.get("error_description", "")}
        code, message = why.get("code", f"HTTP {error.code}"), why.get("message", error.reason)
        raise Failure(error.code, str(code), str(message), wait) from None
    return found
