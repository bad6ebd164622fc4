"""A server that answers from a thread of its own while a context lasts."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from http.server import ThreadingHTTPServer
    from types import TracebackType

# How often, in seconds, the thread looks whether it is to end.
_POLL = 0.02


class Served:
    """Something with a server, which listens at once and answers while the context lasts."""

    def __init__(self, server: ThreadingHTTPServer) -> None:
        self._server = server
        self._thread = threading.Thread(target=server.serve_forever, args=(_POLL,), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
