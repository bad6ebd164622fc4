"""Connections that send no complete request: they are closed, and block nobody."""

import json
import os
import resource
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

import pytest
from running import MakeRun

from fairway_web import app, server

pytestmark = pytest.mark.integration

HALF = b"GET /healthz HTTP/1.1\r\nHost: "


@pytest.fixture
def connect(url: str) -> Iterator[Callable[[bytes], socket.socket]]:
    """Returns a function that opens a connection to the server and sends these bytes."""
    address = urlsplit(url)
    with ExitStack() as stack:

        def connected(sent: bytes) -> socket.socket:
            one = socket.create_connection((address.hostname, address.port), timeout=60)
            stack.enter_context(one)
            one.sendall(sent)
            return one

        yield connected


def _token() -> str:
    return os.environ["FAIRWAY_SERVER_TOKEN"]


def has_ended(connection: socket.socket) -> bool:
    """Waits for the next byte and returns True if the server has closed the connection."""
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


@pytest.mark.parametrize("sent", [b"", HALF])
def test_connection_without_a_request_is_closed(
    connect: Callable[[bytes], socket.socket], sent: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "PATIENCE", 0.2)
    assert has_ended(connect(sent))


def test_connection_that_is_silent_after_an_answer_is_closed(
    url: str, connect: Callable[[bytes], socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection has sent the beginning of another request."""
    monkeypatch.setattr(server, "PATIENCE", 0.5)
    host = urlsplit(url).netloc
    one = connect(HALF + f"{host}\r\n\r\n".encode())
    with one.makefile("rb") as answer:
        assert b" 200 " in answer.readline()
        one.sendall(HALF)
        assert answer.read().endswith(b"ok\n")


def test_connections_that_are_silent_are_closed_and_block_no_other(
    url: str,
    make_run: MakeRun,
    connect: Callable[[bytes], socket.socket],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(server, "most_connections", lambda: 4)
    run = make_run("job-a", [{"log": "one\n", "state": "running"}], "running", engine="none-such")
    headers = {"Authorization": f"Bearer {_token()}", "Accept": "text/event-stream"}
    asked = Request(f"{url}/api/v1/runs/job-a/log", headers=headers)
    with urlopen(asked) as events:
        assert events.readline() == b"id: 4\n"
        silent = [connect(HALF) for _ in range(20)]
        assert all(has_ended(each) for each in silent[:16])
        with urlopen(f"{url}/healthz") as answer:
            assert answer.read() == b"ok\n"
        (run.folder / "new").write_text(json.dumps({"state": "failed"}))
        (run.folder / "new").rename(run.folder / "state.json")
        assert b"event: end\n" in events.read()  # the stream that is being answered stays


def test_connection_whose_body_does_not_arrive_answers_413(
    url: str, connect: Callable[[bytes], socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app, "_PATIENCE", 0.2)
    head = f"POST /api/v1/check HTTP/1.1\r\nHost: {urlsplit(url).netloc}\r\n"
    head += f"Authorization: Bearer {_token()}\r\nContent-Length: 9\r\n\r\n{{"
    with connect(head.encode()).makefile("rb") as answer:
        assert b" 413 " in answer.readline()


def test_connection_limit_is_half_of_the_open_file_limit() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (300, before[1]))
    try:
        assert server.most_connections() == 150
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
