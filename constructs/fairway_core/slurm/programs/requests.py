"""HTTP with JSON, and the patience that Azure asks for."""

from __future__ import annotations

import json
import re
import ssl
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from typing import Any

_TRIES = 8
_LONGEST_WAIT = 60.0
_TIMEOUT = 60.0
_TRANSIENT = frozenset({408, 429, 500, 502, 503, 504})
# Another change of the same resource is under way. A quota that is used up is a conflict too.
_CONFLICTS = frozenset({409, 412})
_LASTING = re.compile(r"quota|SkuNotAvailable|AllocationFailed", re.IGNORECASE)


class Failure(Exception):
    """What a service refused or could not do: its HTTP status, or 0, and the error's code.

    `retry_after` is for how many seconds it asks to be left alone.
    """

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
        """Whether the same request may succeed in a moment."""
        if self.status in _CONFLICTS:
            return not _LASTING.search(str(self))
        return self.status in (0, *_TRANSIENT)


@dataclass(frozen=True)
class Answer:
    """The status, the headers in lower case, and the JSON of an answer; an empty one is {}."""

    status: int
    headers: dict[str, str]
    body: Any


def send(
    method: str,
    url: str,
    *,
    headers: dict[str, str] | None = None,
    body: object = None,
    authority: str = "",
    tries: int = _TRIES,
) -> Answer:
    """Asks until there is a lasting answer; Failure where that is an error.

    What is overloaded, busy or broken for a moment is asked again, after as long as it says, or
    else after twice as long each time. Every request of these programs may be made twice.
    """
    data = None if body is None else json.dumps(body).encode()
    head = {"Accept": "application/json", **(headers or {})}
    if data is not None:
        head["Content-Type"] = "application/json"
    for attempt in range(tries):
        try:
            return _once(method, url, head, data, authority)
        except Failure as failure:
            if not failure.may_pass or attempt == tries - 1:
                raise
            wait = failure.retry_after
            time.sleep(min(_LONGEST_WAIT, 0.5 * 2**attempt if wait is None else wait))
    raise AssertionError("unreachable")


def _once(
    method: str, url: str, headers: dict[str, str], data: bytes | None, authority: str
) -> Answer:
    if not url.startswith(("https://", "http://")):
        raise Failure(0, "BadUrl", url)
    request = urllib.request.Request(url, data=data, headers=headers, method=method)  # noqa: S310
    context = ssl.create_default_context(cafile=authority or None)
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT, context=context) as response:  # noqa: S310
            return Answer(response.status, _lower(response.headers), _json(response.read()))
    except urllib.error.HTTPError as error:
        wait = _seconds(error.headers.get("Retry-After"))
        raise _failure(error.code, error.read(), wait) from None
    except (OSError, ValueError) as error:
        raise Failure(0, "NoAnswer", f"{method} {url}: {error}") from None


def _failure(status: int, text: bytes, retry_after: float | None) -> Failure:
    try:
        body = json.loads(text)
    except ValueError:
        body = {}
    error = body.get("error", {}) if isinstance(body, dict) else {}
    if not isinstance(error, dict):
        error = {"code": str(error), "message": body.get("error_description", "")}
    code, message = str(error.get("code", f"HTTP{status}")), str(error.get("message", ""))
    return Failure(status, code, message, retry_after)


def _json(text: bytes) -> Any:
    return json.loads(text) if text.strip() else {}


def _lower(headers: Any) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}


def _seconds(text: str | None) -> float | None:
    """A Retry-After in seconds; None for a date, which Azure does not send here."""
    try:
        return max(0.0, float(text or ""))
    except ValueError:
        return None
