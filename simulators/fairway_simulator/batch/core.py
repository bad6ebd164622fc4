"""The assembled parts of the service, and the authentication of its clients."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING

from fairway_simulator.batch.agent.commands import NodeAgent
from fairway_simulator.batch.agent.isolation import Network
from fairway_simulator.batch.agent.layout import Layout
from fairway_simulator.batch.agent.logins import Logins
from fairway_simulator.batch.model.account import Account
from fairway_simulator.batch.model.entity import Clock
from fairway_simulator.batch.scheduling.fleet import Fleet
from fairway_simulator.batch.scheduling.jobs import JobEnds, Schedules
from fairway_simulator.batch.scheduling.lifecycle import Lifecycle
from fairway_simulator.batch.scheduling.scheduler import Scheduler
from fairway_simulator.batch.wire.bodies import ServiceError
from fairway_simulator.faults import Fault, Faults

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from fairway_simulator.batch.agent.transfers import Blobs
    from fairway_simulator.http import Request


# Headers whose values are signed, in this order.
_SIGNED = (
    "content-encoding",
    "content-language",
    "content-length",
    "content-md5",
    "content-type",
    "date",
    "if-modified-since",
    "if-match",
    "if-none-match",
    "if-unmodified-since",
    "range",
)

# Requests with a larger difference from the server's clock are refused.
_SKEW = timedelta(minutes=15)


class Authenticator:
    """The check of each request's Authorization header."""

    def __init__(self, account: str, key: str, clock: Clock) -> None:
        self._account = account
        self.key = key
        self._key = base64.b64decode(key, validate=True)
        self._clock = clock
        self.tokens: dict[str, float] = {}
        """Bearer tokens and the POSIX times at which they expire."""

    def check(self, request: Request) -> None:
        """Raises ServiceError (401 or 403) unless the request carries valid credentials."""
        scheme, _, value = request.headers.get("authorization", "").partition(" ")
        if scheme == "SharedKey":
            self._check_signature(request, value)
        elif request.token:
            self._check_token(request.token)
        else:
            raise ServiceError(401, "Unauthorized", "The request carries no credentials.")

    def _check_token(self, token: str) -> None:
        expires = self.tokens.get(token)
        if expires is None:
            raise ServiceError(401, "AuthenticationFailed", "The token was not issued for us.")
        if expires <= self._clock.time().timestamp():
            raise ServiceError(401, "AuthenticationFailed", "The token has expired.")

    def _check_signature(self, request: Request, value: str) -> None:
        account, _, signature = value.partition(":")
        self._check_date(request)
        try:
            given = base64.b64decode(signature, validate=True)
        except binascii.Error:
            given = b""
        digest = hmac.digest(self._key, self._to_sign(request).encode(), hashlib.sha256)
        if account != self._account or not hmac.compare_digest(given, digest):
            why = "The MAC signature found in the HTTP request is not the same as any computed."
            raise ServiceError(403, "AuthenticationFailed", AuthenticationErrorDetail=why)

    def _check_date(self, request: Request) -> None:
        try:
            date = parsedate_to_datetime(request.headers.get("ocp-date", ""))
        except ValueError:
            raise ServiceError(403, "AuthenticationFailed", "The request has no date.") from None
        # Compared to the real clock, as tests move the service's clock forward.
        ours = datetime.now(UTC)
        if abs(ours - date) > _SKEW:
            why = f"The date is {date.isoformat()}, the server's {ours.isoformat()}."
            raise ServiceError(403, "AuthenticationFailed", AuthenticationErrorDetail=why)

    def _to_sign(self, request: Request) -> str:
        headers = dict(request.headers)
        if request.method not in {"GET", "HEAD"}:
            headers.setdefault("content-length", "0")
        elif headers.get("content-length") == "0":
            del headers["content-length"]
        lines = [request.method, *(headers.get(name, "") for name in _SIGNED)]
        lines += sorted(
            f"{name}:{value}" for name, value in headers.items() if "ocp-" in name and value
        )
        lines.append(f"/{self._account}{request.path}")
        lines += [f"{name}:{each[0]}" for name, each in sorted(request.query.items()) if each[0]]
        return "\n".join(lines)


_CODES = {
    429: "TooManyRequests",
    500: "InternalError",
    502: "BadGateway",
    503: "ServerBusy",
    504: "OperationTimedOut",
}


class Core:
    """The parts of an account that the operations work on, none of them started."""

    def __init__(
        self,
        name: str,
        key: str,
        folder: Path,
        blobs: Blobs,
        *,
        images: Mapping[str, Sequence[str]],
        shared_network: bool,
        mounts: Sequence[Path],
    ) -> None:
        self.clock = Clock()
        self.account = Account(name, self.clock)
        network = Network(shared=shared_network)
        self.agent = NodeAgent(self.account, Layout(folder, mounts), blobs, images, network)
        self.jobs = JobEnds(self.account, self.agent)
        self.lifecycle = Lifecycle(self.account, self.jobs)
        self.schedules = Schedules(self.account, self.jobs)
        self.fleet = Fleet(self.account, self.agent)
        self.scheduler = Scheduler(
            self.account, self.agent, self.lifecycle, self.jobs, self.schedules.run
        )
        self.authenticator = Authenticator(name, key, self.clock)
        self.faults = Faults(_refuse)
        self.logins = Logins(self.agent)


def _refuse(fault: Fault) -> ServiceError:
    if fault.kind == "expired":
        return ServiceError(401, "AuthenticationFailed", "The token has expired.")
    details = {} if fault.retry_after is None else {"retry_after": fault.retry_after}
    return ServiceError(fault.status, _CODES.get(fault.status, "InternalError"), "", **details)
