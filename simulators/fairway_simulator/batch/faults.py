"""Faults that a test or a person orders: what goes wrong, how often, and for which requests."""

from __future__ import annotations

import random
import re
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from fairway_simulator.batch.wire.errors import ServiceError
from fairway_simulator.batch.wire.http import CutConnection, Response

if TYPE_CHECKING:
    from collections.abc import Callable

    from fairway_simulator.batch.wire.http import Request

Kind = Literal["status", "timeout", "cut", "torn", "slow", "latency", "half", "expired"]

_CODES = {
    429: "TooManyRequests",
    500: "InternalError",
    502: "BadGateway",
    503: "ServerBusy",
    504: "OperationTimedOut",
}


@dataclass
class Fault:
    """One kind of fault.

    `kind`: `status` answers with `status`; `timeout` is silent for `seconds` and then hangs up;
    `cut` hangs up; `torn` resets the connection in the middle of the answer; `slow` lets the
    answer trickle out over `seconds`; `latency` answers after `seconds`; `half` lets single tasks
    of a collection fail; `expired` refuses the token.
    `share` of the requests are hit (0…1), `count` of them at most, after the first `skip`.
    `method` and `path` (a regular expression, searched for) say which requests are meant.
    `applied` lets the request take effect before its answer is lost.
    """

    kind: Kind
    status: int = 503
    share: float = 1.0
    count: int | None = None
    skip: int = 0
    seconds: float = 0.0
    method: str = ""
    path: str = ""
    applied: bool = False
    retry_after: float | None = None

    def __post_init__(self) -> None:
        re.compile(self.path)

    def concerns(self, request: Request) -> bool:
        """Whether the request is one of those meant."""
        if self.method and self.method != request.method:
            return False
        return not self.path or re.search(self.path, request.path) is not None


class Faults:
    """The faults that are on. The same seed and the same requests give the same faults."""

    def __init__(self, seed: int = 0) -> None:
        self._random = random.Random(seed)  # noqa: S311 - it decides about faults, not secrets
        self._lock = threading.Lock()
        self._faults: list[Fault] = []
        self._stopped = threading.Event()
        self.requests = 0
        """How many requests there were."""
        self.hits: dict[str, int] = {}
        """How many requests each kind of fault hit."""

    def add(self, fault: Fault) -> Fault:
        """Turns a fault on; returns it."""
        with self._lock:
            self._faults.append(fault)
        return fault

    def remove(self, fault: Fault) -> None:
        """Turns one fault off."""
        with self._lock:
            self._faults = [known for known in self._faults if known is not fault]

    def clear(self) -> None:
        """Turns all off."""
        with self._lock:
            self._faults = []

    def stop(self) -> None:
        """Lets nobody wait any longer."""
        self._stopped.set()

    def apply(self, request: Request, handle: Callable[[Request], Response]) -> Response:
        """Handles the request, as well as the faults allow."""
        with self._lock:
            self.requests += 1
            hits = [f for f in self._faults if f.kind != "half" and self._hits(f, request)]
        for fault in hits:
            if fault.kind == "latency":
                self._stopped.wait(fault.seconds)
        for fault in hits:
            if fault.kind not in {"latency", "slow", "torn"}:
                if fault.applied:
                    handle(request)
                self._fail(fault)
        response = handle(request)
        for fault in hits:
            if fault.kind == "slow":
                response.slowly = fault.seconds
            response.torn = response.torn or fault.kind == "torn"
        return response

    def before_task(self, request: Request) -> None:
        """Lets a single task of a collection fail where such a fault is on."""
        if not self._faults:
            return
        with self._lock:
            hit = any(f.kind == "half" and self._hits(f, request) for f in self._faults)
        if hit:
            raise ServiceError(503, "ServerBusy")

    def _hits(self, fault: Fault, request: Request) -> bool:
        if not fault.concerns(request) or fault.count == 0:
            return False
        if fault.skip > 0:
            fault.skip -= 1
            return False
        if fault.share < 1 and self._random.random() >= fault.share:
            return False
        if fault.count is not None:
            fault.count -= 1
        self.hits[fault.kind] = self.hits.get(fault.kind, 0) + 1
        return True

    def _fail(self, fault: Fault) -> None:
        if fault.kind == "timeout":
            self._stopped.wait(fault.seconds or 3600)
            raise CutConnection
        if fault.kind == "cut":
            raise CutConnection
        if fault.kind == "expired":
            raise ServiceError(401, "AuthenticationFailed", "The token has expired.")
        details: dict[str, object] = {}
        if fault.retry_after is not None:
            details["retry_after"] = fault.retry_after
        raise ServiceError(fault.status, _CODES.get(fault.status, "InternalError"), "", **details)
