"""Faults that a test orders: what goes wrong, how often, and for which requests."""

from __future__ import annotations

import random
import re
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from fairway_simulator.kubernetes.api.errors import ApiError
from fairway_simulator.kubernetes.api.requests import Answer, Stream, Takeover
from fairway_simulator.kubernetes.api.server import CutConnection

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fairway_simulator.kubernetes.api.requests import Request

    Reply = Answer | Stream | Takeover

Kind = Literal["status", "cut", "timeout", "endless"]

ENDLESS = "x-stand-in-endless"
"""Tells a node that the stream of an `exec` must not end."""

_WORDS = {
    429: "the server has received too many requests and has asked us to try again later",
    500: "Internal error occurred: etcdserver: request timed out",
    503: "the server is currently unable to handle the request",
    504: "Timeout: request did not complete within requested timeout - context deadline exceeded",
}


@dataclass
class Fault:
    """One kind of fault.

    `kind`: `status` answers with `status`; `cut` resets the connection, in the middle of a watch
    where it is one; `timeout` is silent for `seconds` and then hangs up; `endless` keeps the
    stream of an `exec` open after its command has ended.
    `share` of the requests are hit (0…1), `count` of them at most, after the first `skip`.
    `method` and `path` (a regular expression, searched for) say which requests are meant.
    `applied` lets the request take effect before its answer is lost.
    The cluster's own parts are never hit.
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
    retry_after: int | None = None

    def __post_init__(self) -> None:
        re.compile(self.path)

    def concerns(self, request: Request) -> bool:
        """Whether the request is one of those meant."""
        if self.kind == "endless" and request.parts[-1:] != ["exec"]:
            return False
        if self.method and self.method != request.method:
            return False
        return not self.path or re.search(self.path, request.target) is not None


class Faults:
    """The faults that are on. The same seed and the same requests give the same faults."""

    def __init__(self, seed: int = 0) -> None:
        self._random = random.Random(seed)  # noqa: S311 - it decides about faults, not secrets
        self._lock = threading.Lock()
        self._faults: list[Fault] = []
        self._stopped = threading.Event()
        self.requests: dict[str, int] = {}
        """How many requests of each method there were."""
        self.hits: dict[str, int] = {}
        """How many requests each kind of fault hit."""

    def add(self, fault: Fault) -> Fault:
        """Turns a fault on; returns it."""
        with self._lock:
            self._faults.append(fault)
        return fault

    def clear(self) -> None:
        """Turns all off."""
        with self._lock:
            self._faults = []

    def stop(self) -> None:
        """Lets nobody wait any longer."""
        self._stopped.set()

    def apply(self, request: Request, handle: Callable[[Request], Reply]) -> Reply:
        """Handles the request, as well as the faults allow."""
        with self._lock:
            self.requests[request.method] = self.requests.get(request.method, 0) + 1
            hits = [fault for fault in self._faults if self._hits(fault, request)]
        for fault in hits:
            if fault.kind == "endless":
                request.headers[ENDLESS] = "true"
            elif fault.kind == "cut" and request.switch("watch"):
                answer = handle(request)
                return Stream(_first(answer)) if isinstance(answer, Stream) else answer
            else:
                if fault.applied:
                    handle(request)
                self._fail(fault)
        return handle(request)

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
        if fault.kind in ("timeout", "cut"):
            raise CutConnection
        headers = {} if fault.retry_after is None else {"Retry-After": str(fault.retry_after)}
        message = _WORDS.get(fault.status, "an error on the server has prevented the request")
        raise ApiError(fault.status, message, headers=headers)


def _first(answer: Stream) -> Iterator[bytes]:
    """The first line of a watch, and then nothing but the end of the connection."""
    for piece in answer.pieces:
        yield piece
        break
    raise CutConnection
