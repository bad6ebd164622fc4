"""Starts the server: an address on loopback or a socket, the token of this start, connections.

Anybody on the machine can open any number of connections: each must send its request soon, and the
longest silent one makes room for the next.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import resource
import secrets
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING, Any, ClassVar

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from fairway_core.findings import UserError
from fairway_runner.runs.records import legible_facts, writing
from fairway_web.app import application
from fairway_web.auth import ByToken, SignIn
from fairway_web.threads import Follower

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from fairway_runner.runs.store import RunStore

LOOPBACK = "127.0.0.1"
_GRACE = 2  # seconds for open streams at the end
_BACKLOG = 16  # connections that wait to be accepted

_LOG = logging.getLogger("fairway")


@dataclass(frozen=True)
class Address:
    """Address of the server, and the sign-in of the person who has its token."""

    listener: socket.socket
    url: str
    sign_in: ByToken

    @property
    def login(self) -> str:
        """Address that a browser opens first."""
        return f"{self.url}/login?token={self.sign_in.token}"

    @contextmanager
    def open_page(self, folder: Path) -> Iterator[str]:
        """Yields the address of a page in the folder that leads to the login once. Only its owner
        can read it; the command line of a browser can be read by everybody. Raises UserError if it
        cannot be written."""
        login = f"{self.url}/login?code={self.sign_in.code}"
        page = folder / f"open-{secrets.token_hex(8)}.html"
        text = f'<meta http-equiv="refresh" content="0;url={login}">\n'
        try:
            with writing(f"{page} cannot be written", "leave out --open, and open the address"):
                page.touch(0o600, exist_ok=False)
                page.write_text(text, encoding="ascii")
            yield page.resolve().as_uri()
        finally:
            with suppress(OSError):
                page.unlink()


def listening(address: str, port: int) -> socket.socket:
    """Returns a socket bound to a port of an address. Raises UserError if that fails."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((address, port))
    except OSError as error:
        listener.close()
        message = f"port {port} cannot be used: {error.strerror}"
        hint = "choose another with --port, or leave it out for any free one"
        if address != LOOPBACK:
            message = f"port {port} of {address} cannot be used: {error.strerror}"
            hint = "choose another with --port, or another address of this machine"
        raise UserError.of("port-taken", message, hint) from None
    return listener


def on_loopback(port: int) -> Address:
    """Returns an address on loopback, at any free port for 0. Raises UserError if it is taken."""
    listener = listening(LOOPBACK, port)
    port = listener.getsockname()[1]
    hosts = {f"{name}:{port}" for name in ("127.0.0.1", "localhost")}
    # Cookies ignore ports: the name contains it, so that two servers can run.
    return Address(listener, f"http://127.0.0.1:{port}", ByToken(hosts, f"fairway-{port}"))


def on_socket(path: Path) -> Address:
    """Returns the address of a new socket file for its owner. Raises UserError if that fails."""
    listener = socket_file(path)
    # A browser uses some local port that ssh forwards.
    hosts = {"localhost:*", "127.0.0.1:*"}
    return Address(listener, "http://localhost", ByToken(hosts, f"fairway-{secrets.token_hex(4)}"))


def socket_file(path: Path, *, for_group: bool = False) -> socket.socket:
    """Returns a new socket for its owner, or its group too. Raises UserError if that fails."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o117 if for_group else 0o177)
    try:
        if path.is_socket():
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
                try:
                    probe.connect(str(path))
                except ConnectionRefusedError:  # nobody answers on it any more
                    path.unlink()
        listener.bind(str(path))
    except OSError as error:
        listener.close()
        message = f"{path}: the socket cannot be made: {error.strerror or error}"
        raise UserError.of("no-socket", message, "choose another path with --socket") from None
    finally:
        os.umask(before)
    return listener


def config_of(app: ASGIApp) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=Connection,
        log_level="warning",
        access_log=False,  # the address of the sign-in contains the token
        server_header=False,
        lifespan="on",
        timeout_graceful_shutdown=_GRACE,
        # No proxy between this server and the browser supplies a client's address.
        proxy_headers=False,
        ws="none",
        backlog=_BACKLOG,
    )


class _Server(uvicorn.Server):
    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Starts the server; failures to accept connections are logged like all errors."""

        def say(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
            if isinstance(error := context.get("exception"), OSError):
                _LOG.warning("%s: %s", context["message"], error.strerror)
            else:
                loop.default_exception_handler(context)

        asyncio.get_running_loop().set_exception_handler(say)
        await super().startup(sockets)


def serve(
    store: RunStore,
    listener: socket.socket,
    sign_in: SignIn,
    ready: Callable[[], None],
    address: Address | None = None,
) -> None:
    """Serves people with this kind of sign-in, until SIGINT or SIGTERM; `ready` is called once it
    does. The token of an `address` is recorded for programs. Raises SystemExit after SIGTERM."""
    follower = Follower(store)
    server = _Server(config_of(application(store, sign_in, follower)))
    with store.recording():
        store.make()
    recorded = nullcontext() if address is None else _recorded(store, address)
    terminated = False

    def end(_number: int, _frame: object) -> None:
        # No exception: Python would discard one in a finalizer.
        nonlocal terminated
        terminated = server.should_exit = True

    # uvicorn shuts down in order, then raises the signal again: by then the record must be gone.
    signal.signal(signal.SIGTERM, end)
    with listener, recorded:
        listener.listen(_BACKLOG)
        ready()
        follower.start()
        try:
            server.run(sockets=[listener])
        finally:
            follower.end()
    if terminated:
        raise SystemExit(128 + signal.SIGTERM)


@contextmanager
def _recorded(store: RunStore, address: Address) -> Iterator[None]:
    """Records address and token in `.fairway/serve.json`, readable by its owner only, within the
    block. If another server of the project runs as well, its record is restored afterwards."""
    file = store.base / "serve.json"
    with store.recording():
        earlier = legible_facts(file)
        _write(file, {"url": address.url, "token": address.sign_in.token, "pid": os.getpid()})
    try:
        yield
    finally:
        with suppress(OSError):
            if legible_facts(file).get("pid") == os.getpid():
                if _runs(earlier.get("pid")):
                    _write(file, earlier)
                else:
                    file.unlink()


def _write(file: Path, facts: dict[str, Any]) -> None:
    with NamedTemporaryFile("w", dir=file.parent, prefix=".", delete=False) as draft:
        json.dump(facts, draft)  # created with access for its owner only
    Path(draft.name).replace(file)


def _runs(pid: object) -> bool:
    if type(pid) is not int or pid <= 0:
        return False
    try:
        os.kill(pid, 0)
    except (OSError, OverflowError):
        return False
    return True


PATIENCE = 20.0  # seconds for a request's head, since the connection or the last answer
_MOST = 512  # connections; processes may open at least as many files


def most_connections() -> int:
    """Returns half of the number of files that this process may open: runs need the others."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _MOST if soft == resource.RLIM_INFINITY else min(_MOST, max(1, soft // 2))


class Connection(H11Protocol):
    """One connection, which is closed if it is silent too long, or others need its place."""

    waiting: ClassVar[dict[Connection, None]] = {}
    """Connections without a request in progress, the one that waits longest first."""
    _limit: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Closes the connection that has waited longest if there are too many."""
        super().connection_made(transport)
        self._wait()
        if len(self.connections) > most_connections():
            next(iter(self.waiting)).end()

    def connection_lost(self, exc: Exception | None) -> None:
        self._wait_no_more()
        super().connection_lost(exc)

    def handle_events(self) -> None:
        """Handles received data; once its headers are complete, a request may take any time."""
        super().handle_events()
        if self.cycle is not None and not self.cycle.response_complete:
            self._wait_no_more()

    def on_response_complete(self) -> None:
        self._wait()
        super().on_response_complete()

    def end(self) -> None:
        """Closes it immediately, and frees its place."""
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
