"""Calls to a service that may fail temporarily, with retries until they succeed or time is up."""

from __future__ import annotations

import ipaddress
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar
from urllib.parse import urlsplit

from azure.core.exceptions import (
    AzureError,
    ClientAuthenticationError,
    HttpResponseError,
    IncompleteReadError,
    ServiceRequestError,
    ServiceResponseError,
)

from fairway_boot.files import NO_ANSWER
from fairway_core.findings import Finding, UserError
from fairway_runner.engines.azure_sdk import how_to_sign_in, sign_in_again, why_not_signed_in
from fairway_runner.engines.outage import (
    Choice,
    Patient,
    SlowCallNotice,
    TargetUnavailable,
    WatchedCall,
)

T = TypeVar("T")

_BUSY = frozenset({408, 429, 500, 502, 503, 504})
_SKEW = 600  # seconds; Azure refuses requests whose timestamp differs by more
_UNKNOWN_NAME = 20.0  # seconds during which a host that is unknown, or not meant, is retried
_NOT_THERE = (socket.gaierror, ssl.SSLError, ssl.SSLCertVerificationError)
SOON = 30.0
"""Seconds for which read-only commands retry an unavailable service."""

_START = "start the simulator: bin/batch-simulator --background, and then: source ./sim.env"

# Errors of storage for a caller that it could authenticate. Source: Azure documentation,
# troubleshoot 403 errors in Azure Blob Storage.
_KNOWN_TO_IT = {
    "AuthorizationFailure": (
        "is closed to this machine's address",
        (
            "connect from inside its network, over its VPN, or through a host there: `gateway: "
            "{host, user}`\nof the target, beside `ssh_route`; or add your public range to\n"
            "`access.allowed` in the environment, and deploy it (docs/private-cluster.md)"
        ),
    ),
    "AuthorizationPermissionMismatch": (
        "knows you, but does not allow this",
        (
            "you need the role Storage Blob Data Contributor on the container, which\n"
            "`access.researchers` in the environment assigns; or another account is signed in:\n"
            "az account show. A new role takes effect after some minutes"
        ),
    ),
}

_REFUSED = {
    "PoolNotFound": "deploy the environment, or read its targets again: fairway targets sync",
    "ContainerNotFound": "add it under the environment's `storage:`, and deploy it",
}


class ServiceError(UserError):
    """Error of a service that refused a request; `status` is HTTP's, `code` the service's own."""

    def __init__(self, finding: Finding, *, status: int, code: str, exit_code: int = 5) -> None:
        super().__init__([finding], exit_code=exit_code)
        self.status = status
        self.code = code

    @property
    def is_missing(self) -> bool:
        """True if the requested object does not exist."""
        return self.status == 404

    @property
    def exists_already(self) -> bool:
        """True if the object exists, or is in a state that does not allow the request."""
        return self.status == 409


class ServiceAway(ServiceError, TargetUnavailable):
    """Error of a service that did not answer until the deadline."""


@contextmanager
def ignore_missing(*codes: str) -> Iterator[None]:
    """Ignores in the block that the requested object does not exist, or one of these errors."""
    try:
        yield
    except ServiceError as error:
        if not error.is_missing and error.code not in codes:
            raise


@dataclass
class Calls(Patient):
    """Caller of one service; a failing call is retried for `deadline` seconds. `service` names it
    in messages; `hint` is for refused credentials. `skew` is by how many seconds the service's
    clock is ahead, once that caused a failure; None if requests are dated by this machine alone. An
    `address` of this machine is never waited for."""

    service: str
    deadline: float
    hint: str
    has_token: bool = False
    skew: float | None = None
    address: str = ""
    stopped: threading.Event = field(default_factory=threading.Event)
    """Set when another call has given up, so that waiting is pointless."""
    clock: Callable[[], float] = time.monotonic
    notice: SlowCallNotice = field(default_factory=SlowCallNotice)

    def soon(self) -> AbstractContextManager[None]:
        """Shortens the default deadline within the block, for commands that only look."""
        return self.within(SOON if Choice.seconds is None else self.deadline)

    def call(self, what: str, operation: Callable[[], T], *, brief: bool = True) -> T:
        """Calls the operation and returns its result. Raises ServiceError if the service refuses or
        does not answer. `what` names the request in messages, as `the list of jobs`; one that is
        not `brief` may take long, and counts as silent only from its first failure on."""
        with self.notice.watch(self.service, self.deadline, self.stopped, self.clock) as watched:
            if not brief:
                watched.answered()
            return self._call(what, operation, watched)

    def _call(self, what: str, operation: Callable[[], T], watched: WatchedCall) -> T:
        # The SDKs' own retries are switched off. azure.core's policy waits as long as a service
        # asks, even past its `timeout`, and then raises "Response timeout" in place of the failure.
        # It does not repeat a POST whose connection broke, and new tasks are one; it requests a
        # torn answer again without any pause, and a torn download, which is read later, not at all.
        # Batch's signature would keep the date of the first try, which is refused after some
        # minutes. Storage has a policy of its own, which counts tries and not seconds.
        tokens, is_dated = 0, False
        while True:
            try:
                return operation()
            except AzureError as error:
                if isinstance(error, ClientAuthenticationError) and self.has_token and tokens < 2:
                    tokens += 1  # expired on the way: the next request gets a new token
                    continue
                if self.skew is not None and not is_dated and abs(_skew(error)) > _SKEW:
                    is_dated = _facts(error)[0] in (401, 403)
                    if is_dated:  # retry once, dated by the service's clock
                        self.skew = _skew(error)
                        continue
                is_late = watched.elapsed > min(_UNKNOWN_NAME, watched.deadline)
                if not _is_transient(error) or (is_late and _failed_by(error, *_NOT_THERE)):
                    raise self._refused(what, error) from None
                if self.is_here and _failed_by(error, ConnectionRefusedError):
                    where = urlsplit(self.address)
                    place = f"{where.scheme}://{where.netloc}"
                    message = f"nothing listens at {place}, where {self.service} is"
                    finding = Finding("nothing-listens", message, _START)
                    raise ServiceError(finding, status=0, code="") from None
                watched.failed(_facts(error)[2])
                response = getattr(error, "response", None)
                text = response.headers.get("Retry-After", "") if response is not None else ""
                asked = float(text) if text.isdecimal() else None
                if not watched.pause(asked=asked):
                    raise self._away(what, error, asked) from None

    def pages(self, what: str, items: Any) -> Iterator[Any]:
        """Yields the items of a paged answer, each page of which is a call of its own."""
        pages = items.by_page()
        while True:
            page = self.call(what, lambda: next(pages, None))
            if page is None:
                return
            yield from page

    @property
    def is_here(self) -> bool:
        """True if the service is a stand-in on this machine."""
        host = urlsplit(self.address).hostname or ""
        try:
            return host == "localhost" or ipaddress.ip_address(host).is_loopback
        except ValueError:
            return False

    def _refused(self, what: str, error: AzureError) -> ServiceError:
        status, code, text = _facts(error)
        if status not in (401, 403) and not isinstance(error, ClientAuthenticationError):
            finding = Finding(
                "refused", f"{self.service} refuses {what}: {text}", _REFUSED.get(code, "")
            )
            return ServiceError(finding, status=status, code=code)
        skew, hint = _skew(error), self.hint
        # Azurite returns the first of these codes for a wrong key too, with Azure's text for that;
        # an answer to HEAD has no text.
        is_known = code == "AuthorizationPermissionMismatch" or "not authorized" in text
        if why := sign_in_again(error):
            message, hint = f"{self.service} was not asked: {why}", "az login"
        elif not status:  # no answer from a service: the SDK has no credentials
            why = why_not_signed_in(error)
            message = f"{self.service} was not asked: not signed in to Azure: {why}"
            hint = how_to_sign_in(error, self.hint)
        elif abs(skew) > _SKEW:
            minutes, word = abs(skew) / 60, "behind" if skew > 0 else "ahead of"
            message = f"this machine's clock is {minutes:.0f} minutes {word} {self.service}'s"
            hint = "set it, for example with: sudo timedatectl set-ntp true"
        elif code in _KNOWN_TO_IT and is_known:
            why, hint = _KNOWN_TO_IT[code]
            message = f"{self.service} {why}: {text}"
        else:
            message = f"{self.service} does not accept these credentials: {text}"
        finding = Finding("no-access", message, hint)
        return ServiceError(finding, status=status, code=code, exit_code=2)

    def _away(self, what: str, error: AzureError, asked: float | None) -> ServiceError:
        status, code, text = _facts(error)
        said = f"has not answered for {self.deadline:.0f} s"
        if asked is not None and asked > self.deadline:
            said = f"asks to wait {asked:.0f} s"
        message = f"{self.service} {said} ({what}): {text}"
        hint = "try again later"
        if Choice.offered:
            hint += ", or wait longer with --deadline"
        return ServiceAway(Finding(NO_ANSWER, message, hint), status=status, code=code)


def _is_transient(error: AzureError) -> bool:
    if isinstance(error, ClientAuthenticationError):
        return False
    if isinstance(error, HttpResponseError) and error.status_code is not None:
        return error.status_code in _BUSY
    # An error without a status means that the connection broke in the middle of an answer.
    lost = (ServiceRequestError, ServiceResponseError, IncompleteReadError, HttpResponseError)
    return isinstance(error, lost)


def _failed_by(error: AzureError, *kinds: type[OSError]) -> bool:
    """Returns True if an error of just these kinds kept a request from being sent: requests and
    urllib3 each wrap it once more, as `args`, `reason` or the cause."""
    seen: list[BaseException] = []
    waiting: list[object] = [error] if isinstance(error, ServiceRequestError) else []
    while waiting:
        each = waiting.pop()
        if type(each) in kinds:
            return True
        if isinstance(each, BaseException) and each not in seen:
            seen.append(each)
            inner = (getattr(each, name, None) for name in ("inner_exception", "reason"))
            waiting += [*each.args, each.__cause__, each.__context__, *inner]
    return False


def _facts(error: AzureError) -> tuple[int, str, str]:
    """Returns HTTP's status, the service's code, and its message; 0 and "" if there are none."""
    status = int(getattr(error, "status_code", None) or 0)
    code = getattr(error, "error_code", None) or ""
    code = str(getattr(code, "value", code))  # an enumeration in storage's SDK
    detail = getattr(error, "error", None)
    if not code and detail is not None:
        code = str(getattr(detail, "code", None) or "")
    text = str(getattr(detail, "message", None) or error.message or error).strip()
    lines = [line for line in text.splitlines() if not line.startswith(("RequestId", "Time:"))]
    text = " ".join(lines)[:500]
    details = getattr(detail, "details", None) or []
    said = [str(each.message) for each in details if getattr(each, "message", None)]
    text = " ".join([text, *said[:3]]).strip()
    known = f"{status} {code}".strip() if status else ""
    return status, code, f"{known}: {text}" if known and known not in text else text


def _skew(error: AzureError) -> float:
    response = getattr(error, "response", None)
    date = response.headers.get("Date", "") if response is not None else ""
    try:
        return (parsedate_to_datetime(date) - datetime.now(UTC)).total_seconds()
    except (TypeError, ValueError):
        return 0.0
