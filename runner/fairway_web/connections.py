"""Connections to the server, of which anybody on its machine can open any number: each says soon
what it wants, and the longest silent one makes room for the next."""

from __future__ import annotations

import resource
from typing import TYPE_CHECKING, ClassVar

from uvicorn.protocols.http.h11_impl import H11Protocol

if TYPE_CHECKING:
    import asyncio

PATIENCE = 20.0  # seconds for the head of a request, from the connection or the last answer on
_MOST = 512  # connections; a program has at least as many files


def most_connections() -> int:
    """Half of the files that this process may have open: runs need the others."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _MOST if soft == resource.RLIM_INFINITY else min(_MOST, max(1, soft // 2))


class Connection(H11Protocol):
    """One connection, which ends where it waits too long, or others need its place."""

    waiting: ClassVar[dict[Connection, None]] = {}
    """Those that nothing is answered now, the first of them for the longest time."""
    _limit: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Makes room where there are too many."""
        super().connection_made(transport)
        self._wait()
        if len(self.connections) > most_connections():
            next(iter(self.waiting)).end()

    def connection_lost(self, exc: Exception | None) -> None:
        """It waits no longer."""
        self._wait_no_more()
        super().connection_lost(exc)

    def handle_events(self) -> None:
        """Takes what has come; a request has the time that it needs from its last header on."""
        super().handle_events()
        if self.cycle is not None and not self.cycle.response_complete:
            self._wait_no_more()

    def on_response_complete(self) -> None:
        """Waits for the next request."""
        self._wait()
        super().on_response_complete()

    def end(self) -> None:
        """Closes it at once, and frees its place."""
        self._wait_no_more()
        self.connections.discard(self)
        self.transport.abort()

    def _wait(self) -> None:
        self._wait_no_more()
        self.waiting[self] = None
        self._limit = self.loop.call_later(PATIENCE, self.end)

    def _wait_no_more(self) -> None:
        self.waiting.pop(self, None)
        if self._limit is not None:
            self._limit.cancel()
            self._limit = None
