"""A service that is waited for is named, so that nobody sits before a silent command."""

from __future__ import annotations

import logging
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_QUIET = 5.0  # seconds of silence that need no words

_LOG = logging.getLogger("fairway")


@dataclass(eq=False)
class Watched:
    """A call that has not ended: until when it is tried, what failed last, and since when nobody
    has answered, on the monotonic clock; None while somebody does."""

    service: str
    until: float
    since: float | None
    reason: str = ""

    def answered(self) -> None:
        """What it takes from now on, the service does."""
        self.since = None

    def failed(self, reason: str) -> None:
        """It is tried again."""
        self.reason = reason
        if self.since is None:
            self.since = time.monotonic()


@dataclass
class Silence:
    """Looks after the calls to a service; says once that it does not answer, and once more only
    after it did."""

    _open: set[Watched] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _told: bool = False
    _has_thread: bool = False

    @contextmanager
    def watch(self, service: str, deadline: float) -> Iterator[Watched]:
        """Holds one call."""
        now = time.monotonic()
        call = Watched(service, now + deadline, now)
        with self._lock:
            self._open.add(call)
            if not self._has_thread:
                self._has_thread = True
                threading.Thread(target=self._look, name="silence", daemon=True).start()
        try:
            yield call
        finally:
            with self._lock:
                self._open.discard(call)
                self._told = self._told and bool(self._open)

    def _look(self) -> None:
        while True:
            time.sleep(_QUIET / 5)
            now = time.monotonic()
            with self._lock:
                if not self._open:
                    self._has_thread = False  # the next call starts another
                    return
                late = [call for call in self._open if now - (call.since or now) >= _QUIET]
            if late and not self._told:
                self._told = True
                _tell(late[0], now)


def _tell(call: Watched, now: float) -> None:
    until = datetime.now().astimezone() + timedelta(seconds=call.until - now)
    why = f" ({call.reason})" if call.reason else ""
    text = "%s does not answer%s; trying until %s, Ctrl-C ends it"
    _LOG.warning(text, call.service, why, f"{until:%H:%M:%S}")
