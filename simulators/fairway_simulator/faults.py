"""Faults that a test or a user orders: their kind, their number, and the affected requests."""

from __future__ import annotations

import random
import re
import threading
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from fairway_simulator.http import Answer, CutConnection, Reply, Stream

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fairway_simulator.http import Handle, Request

Kind = Literal["status", "timeout", "cut", "torn", "slow", "latency", "half", "expired", "endless"]
ENDLESS = "x-stand-in-endless"
"""The header that makes a Kubernetes node keep the stream of an `exec` open."""
# Faults that change an answer, rather than withhold it.
_ON_THE_WAY = frozenset({"latency", "slow", "torn", "endless"})


@dataclass
class Fault:
    """One kind of fault.

    `kind`: `status` answers with `status`; `timeout` is silent for `seconds` and then hangs up;
    `cut` resets the connection, in the middle of a watch if it is one; `torn` does so in the middle
    of the answer; `slow` sends the answer slowly, over `seconds`; `latency` answers after
    `seconds`; `half` lets single tasks of a collection fail; `expired` refuses the token; `endless`
    keeps the stream of an `exec` open after its command has ended. `share` of the requests are
    affected (0…1), `count` of them at most, after the first `skip`. `method` and `path` (a regular
    expression, searched for) select requests. `applied` lets the request take effect before its
    answer is lost.
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
        if self.kind == "endless" and request.parts[-1:] != ["exec"]:
            return False
        if self.method and self.method != request.method:
            return False
        return not self.path or re.search(self.path, request.path) is not None


class Faults:
    """Active faults. `refuse` converts one into the service's error. Equal requests meet equal
    faults."""

    def __init__(self, refuse: Callable[[Fault], Exception]) -> None:
        self._refuse = refuse
        self._random = random.Random(0)  # noqa: S311 - for faults, not for secrets
        self._lock = threading.Lock()
        self._faults: list[Fault] = []
        self._stopped = threading.Event()
        self.requests: Counter[str] = Counter()
        """The number of requests of each method."""
        self.hits: Counter[str] = Counter()
        """The number of requests that each kind of fault affected."""

    def add(self, fault: Fault) -> Fault:
        with self._lock:
            self._faults.append(fault)
        return fault

    def remove(self, fault: Fault) -> None:
        with self._lock:
            self._faults = [known for known in self._faults if known is not fault]

    def clear(self) -> None:
        with self._lock:
            self._faults = []

    def stop(self) -> None:
        """Ends all waits."""
        self._stopped.set()

    def apply(self, request: Request, handle: Handle) -> Reply:
        """Handles the request, unless a fault prevents it."""
        with self._lock:
            self.requests[request.method] += 1
            hits = [f for f in self._faults if f.kind != "half" and self._hits(f, request)]
        kinds = {fault.kind: fault for fault in hits}
        if late := kinds.get("latency"):
            self._stopped.wait(late.seconds)
        if "endless" in kinds:
            request.headers[ENDLESS] = "true"
        for fault in hits:
            if fault.kind == "cut" and request.option("watch"):
                reply = handle(request)
                return Stream(_first(reply)) if isinstance(reply, Stream) else reply
            if fault.kind not in _ON_THE_WAY:
                if fault.applied:
                    handle(request)
                self._fail(fault)
        reply = handle(request)
        if isinstance(reply, Answer):
            reply.slowly = kinds["slow"].seconds if "slow" in kinds else 0.0
            reply.torn = "torn" in kinds
        return reply

    def before_task(self, request: Request) -> None:
        """Lets a single task of a collection fail if such a fault is active."""
        with self._lock:
            hits = [f for f in self._faults if f.kind == "half" and self._hits(f, request)]
        if hits:
            raise self._refuse(hits[0])

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
        self.hits[fault.kind] += 1
        return True

    def _fail(self, fault: Fault) -> None:
        if fault.kind == "timeout":
            self._stopped.wait(fault.seconds or 3600)
        if fault.kind in ("timeout", "cut"):
            raise CutConnection
        raise self._refuse(fault)


def _first(stream: Stream) -> Iterator[bytes]:
    """Yields the first line of a watch, and then cuts the connection."""
    for piece in stream.pieces:
        yield piece
        break
    raise CutConnection
