"""A registry's own token for that of a node's identity, over loopback."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

import pytest

from fairway_agent.azure.registry import exchanged
from fairway_boot.http import Failure

if TYPE_CHECKING:
    from collections.abc import Iterator

SERVER = "lab.azurecr.io"


class Registry(ThreadingHTTPServer):
    """Gives each answer once: a status, and JSON."""

    def __init__(self) -> None:
        self.answers: list[tuple[int, object]] = []
        self.asked: list[tuple[str, dict[str, list[str]]]] = []
        super().__init__(("127.0.0.1", 0), _Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: Registry

    def do_POST(self) -> None:
        form = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.server.asked.append((self.path, parse_qs(form)))
        status, body = self.server.answers.pop(0)
        text = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Retry-After", "0")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: Any) -> None:
        """Nothing is printed."""


@pytest.fixture
def registry() -> Iterator[Registry]:
    with Registry() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_one_that_is_busy_for_a_moment_is_asked_again(registry: Registry) -> None:
    registry.answers = [(503, {}), (429, {}), (200, {"refresh_token": "own"})]
    assert exchanged(registry.url, SERVER, "identity's") == "own"
    form = {
        "grant_type": ["access_token"],
        "service": [SERVER],
        "access_token": ["identity's"],
    }
    assert registry.asked == [("/oauth2/exchange", form)] * 3


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ((401, {"error": {"code": "UNAUTHORIZED", "message": "no AcrPull"}}), "no AcrPull"),
        ((200, {"refresh_token": 1}), "the answer holds no token"),
        ((200, []), "the answer holds no token"),
    ],
)
def test_one_that_gives_none_is_asked_once(
    registry: Registry, answer: tuple[int, object], why: str
) -> None:
    registry.answers = [answer]
    with pytest.raises(Failure, match=why):
        exchanged(registry.url, SERVER, "identity's")
    assert len(registry.asked) == 1
