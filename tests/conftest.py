"""Shared by all tests: where the repository is, how signals are taken, who takes webhooks."""

import json
import queue
import signal
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="session")
def repository() -> Path:
    """The repository's root."""
    return Path(__file__).resolve().parent.parent


def pytest_configure() -> None:
    """Takes signals as a terminal's programs do, whatever started the tests.

    A shell starts what it puts into the background with SIGINT ignored, and nohup with SIGHUP;
    the programs under test would inherit that, and Ctrl-C would not end them.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGQUIT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


_PATIENCE = 300.0  # seconds; only a hang takes so long


@dataclass
class Receiver:
    """What was posted, and how the next posts are answered: with a status, 0 for no answer at
    all, and with 200 when the list is over."""

    url: str = ""
    answers: list[int] = field(default_factory=list)
    seen: int = 0
    taken: queue.Queue[dict[str, Any]] = field(default_factory=queue.Queue)

    def next(self) -> dict[str, Any]:
        """The next message that was taken."""
        return self.taken.get(timeout=_PATIENCE)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """A receiver of webhooks on loopback."""
    got = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            got.seen += 1
            status = got.answers.pop(0) if got.answers else 200
            if status == 0:
                return  # the connection is closed
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()
            if status == 200:
                got.taken.put(json.loads(body))

        def log_message(self, *_: object) -> None:
            """Says nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    got.url = f"http://127.0.0.1:{server.server_port}/hook"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield got
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
