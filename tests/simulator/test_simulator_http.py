"""HTTP server of all simulators, and the faults that tests can add to it."""

import http.client
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fairway_simulator.certificate import serve_as_localhost
from fairway_simulator.faults import Fault, Faults
from fairway_simulator.http import Answer, CutConnection, Reply, Request, Server, Stream, Takeover

SEEN: list[Request] = []


def _pieces() -> Iterator[bytes]:
    yield b"one"
    yield b""
    yield b"two"


def _handle(request: Request) -> Reply:
    SEEN.append(request)
    match request.parts:
        case ["stream"]:
            return Stream(_pieces(), "text/plain")
        case ["taken"]:
            return Takeover(lambda connection: connection.sendall(b"over to you"))
        case ["cut"]:
            raise CutConnection
        case ["short"]:
            return Answer(body=b"0123456789", cut=4)
        case ["torn"]:
            return Answer(body=b"0123456789", torn=True)
        case ["slow"]:
            return Answer(body=b"0123456789", slowly=300)
        case ["gone"]:
            return Answer(status=204)
        case ["wrong"]:
            raise KeyError("nothing")
    return Answer({"body": request.body.decode(), "of": request.option("of", "none")})


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A server whose answers depend on the path."""
    with Server(_handle) as found:
        yield found


def ask(server: Server, path: str, method: str = "GET", **more: Any) -> tuple[int, bytes]:
    """Returns the status and the body of an answer."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=300)
    try:
        connection.request(method, path, **more)
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


@pytest.mark.parametrize("tls", [False, True])
def test_http_connections_end_with_the_server(tmp_path: Path, tls: bool) -> None:
    context, authority = serve_as_localhost(tmp_path)
    kind: Any = http.client.HTTPSConnection if tls else http.client.HTTPConnection
    more = {"context": ssl.create_default_context(cafile=str(authority))} if tls else {}
    with Server(_handle, context if tls else None) as server:
        connection = kind("127.0.0.1", server.port, timeout=300, **more)
        connection.request("GET", "/")
        assert connection.getresponse().read()
    connection.auto_open = 0
    with pytest.raises((OSError, http.client.HTTPException)):
        _again(connection)
    connection.close()


def _again(connection: http.client.HTTPConnection) -> None:
    connection.request("GET", "/")
    connection.getresponse()


@pytest.mark.parametrize(
    ("path", "error", "kept"),
    [
        ("/cut", OSError, b""),
        ("/short", http.client.IncompleteRead, b"0123"),
        ("/torn", (ConnectionResetError, http.client.IncompleteRead), b""),
    ],
)
def test_http_answers_end_early_if_they_are_cut_short_or_torn(
    server: Server, path: str, error: Any, kept: bytes
) -> None:
    with pytest.raises(error) as caught:
        ask(server, path)
    assert not kept or caught.value.partial == kept


def test_http_answers_marked_slow_are_sent_byte_by_byte(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[float] = []
    monkeypatch.setattr("fairway_simulator.http.time", SimpleNamespace(sleep=waited.append))
    assert ask(server, "/slow") == (200, b"0123456789")
    assert waited == [30.0] * 10


@pytest.mark.parametrize(
    "payload",
    [
        b"nonsense\r\n\r\n",
        b"GET / HTTP/1.1\r\nContent-Length: x\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n",
        b"\x00\xff\r\n\r\n",
    ],
)
def test_http_connections_with_invalid_requests_are_closed(server: Server, payload: bytes) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=300) as connection:
        connection.sendall(payload)
        assert connection.recv(1) == b""
    assert ask(server, "/")[0] == 200


class Refused(Exception):
    """Answer of a service with a fault."""


def _hits(faults: Faults, *paths: str, method: str = "GET") -> list[bool]:
    """Returns for each request whether it was refused."""
    found = []
    for path in paths:
        try:
            faults.apply(Request(method, path, {}), lambda _: Answer())
            found.append(False)
        except (Refused, CutConnection):
            found.append(True)
    return found


def _refuse(fault: Fault) -> Exception:
    return Refused(fault)


def test_faults_hit_matching_requests_after_skips_up_to_their_count() -> None:
    faults = Faults(_refuse)
    fault = faults.add(Fault("status", count=2, skip=1, method="GET", path="^/pools"))
    assert _hits(faults, "/jobs", *["/pools"] * 5) == [False, False, True, True, False, False]
    assert not any(_hits(faults, "/pools", method="POST"))
    assert (faults.requests, faults.hits) == ({"GET": 6, "POST": 1}, {"status": 2})
    fault.count = None
    assert all(_hits(faults, "/pools"))
    faults.remove(fault)
    assert not any(_hits(faults, "/pools"))
    faults.add(Fault("cut"))
    faults.clear()
    assert not any(_hits(faults, "/pools"))


def test_faults_hit_a_share_of_requests_deterministically() -> None:
    def hits() -> list[bool]:
        faults = Faults(_refuse)
        faults.add(Fault("status", share=0.3))
        return _hits(faults, *["/"] * 40)

    assert 4 <= sum(hits()) <= 22
    assert hits() == hits()


def test_faults_wait_before_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    faults, waited = Faults(_refuse), list[float]()
    monkeypatch.setattr(faults._stopped, "wait", waited.append)
    for kind in ("latency", "timeout"):
        faults.add(Fault(kind, seconds=30, count=1))  # type: ignore[arg-type]
    assert _hits(faults, "/", "/") == [True, False]
    assert waited == [30, 30]


@pytest.mark.parametrize(("applied", "handled"), [(False, 0), (True, 1)])
def test_faults_cut_before_or_after_the_request_is_applied(applied: bool, handled: int) -> None:
    faults, seen = Faults(_refuse), list[Request]()
    faults.add(Fault("cut", applied=applied))
    with pytest.raises(CutConnection):
        faults.apply(Request("GET", "/", {}), lambda request: Answer(seen.append(request)))
    assert len(seen) == handled


def test_faults_cut_a_watch_after_its_first_line() -> None:
    faults, found = Faults(_refuse), list[bytes]()
    faults.add(Fault("cut"))
    reply = faults.apply(Request("GET", "/pods?watch=1", {}), lambda _: Stream(_pieces()))
    assert isinstance(reply, Stream)
    with pytest.raises(CutConnection):
        found.extend(reply.pieces)
    assert found == [b"one"]


def test_faults_tear_slow_down_or_never_end_an_answer() -> None:
    faults = Faults(_refuse)
    faults.add(Fault("torn"))
    faults.add(Fault("slow", seconds=3))
    reply = faults.apply(Request("GET", "/", {}), lambda _: Answer())
    assert isinstance(reply, Answer)
    assert (reply.torn, reply.slowly) == (True, 3)
    request = Request("GET", "/pods/p/exec", {})
    faults.add(Fault("endless"))
    faults.apply(request, lambda _: Answer())
    assert request.headers == {"x-stand-in-endless": "true"}
