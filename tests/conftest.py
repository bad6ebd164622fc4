"""Fixtures of all tests: the repository, signals, programs, the browser, and receivers."""

import gc
import json
import os
import re
import shutil
import signal
import socketserver
import ssl
import sys
from collections.abc import Generator, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from receivers import MailServer, Receiver
from serving import Handler, in_thread, serving
from waiting import PATIENCE

if TYPE_CHECKING:
    from playwright.sync_api import Browser


pytest_plugins = ("raised", "skips", "tiers")  # tests/suite


_OTHER_PACKAGES = re.compile(r"^ *(?:from|import) fairway_(?!agent\b|boot\b)", re.MULTILINE)


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Leaves out modules that need a later Python, on the oldest Python of hosts."""
    if sys.version_info >= (3, 11):  # noqa: UP036 (hosts have 3.10)
        return None
    files = [collection_path, collection_path / "conftest.py"]
    if any(each.is_file() and _OTHER_PACKAGES.search(each.read_text("utf-8")) for each in files):
        return True
    return None


@pytest.fixture(scope="session")
def repository() -> Path:
    """The repository's root."""
    return Path(__file__).resolve().parent.parent


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that precedes the machine's own programs on PATH; see `executable`."""
    folder = tmp_path / "programs"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)
    return folder


@pytest.fixture(scope="session")
def chromium() -> "Iterator[Browser]":
    """The browser for all tests, each of which has a context of its own. There can be no second
    one, as Playwright has an event loop of its own in the thread."""
    from playwright.sync_api import expect, sync_playwright

    program = next(filter(None, map(shutil.which, ("chromium", "google-chrome"))), None)
    if program is None:
        pytest.skip("no chromium; on Debian: sudo apt-get install --no-install-recommends chromium")
    patience = PATIENCE * 1000  # milliseconds
    expect.set_options(timeout=patience)
    options = ["--disable-gpu", "--disable-quic", "--no-first-run"]
    options += ["--disable-background-networking"]
    if os.geteuid() == 0:
        options += ["--no-sandbox"]
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=program, args=options, timeout=patience)
        yield found
        found.close()


def pytest_configure() -> None:
    """Resets signals to what programs of a terminal have, whatever started the tests.

    A shell starts background programs with SIGINT ignored, and nohup with SIGHUP; the programs
    under test would inherit that, and Ctrl-C would not end them.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGQUIT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collects ten thousand tests without garbage collection of them, then or later."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """A receiver of webhooks on loopback."""
    got = Receiver()

    class Hook(Handler):
        def do_POST(self) -> None:
            body = self.body()
            got.seen += 1
            status = got.answers.pop(0) if got.answers else 200
            if status == 0:
                return  # the connection is closed
            self.answer(status=status, Location="/elsewhere")
            if status == 200:
                got.taken.put(json.loads(body))

        def do_GET(self) -> None:
            self.answer()  # of what a redirect leads to

    with serving(Hook) as url:
        got.url = f"{url}/hook"
        yield got


def _secure(handler: socketserver.StreamRequestHandler, tls: ssl.SSLContext | None) -> None:
    """Switches the connection to TLS, if there is a context."""
    if tls is not None:
        handler.connection = tls.wrap_socket(handler.connection, server_side=True)
        handler.rfile = handler.connection.makefile("rb")
        handler.wfile = handler.connection.makefile("wb", 0)


_REPLIES = {"QUIT": "221 bye", "AUTH": "235 welcome"}


@pytest.fixture
def mail_server() -> Iterator[MailServer]:
    """A mail server on loopback."""
    got = MailServer()

    class Mail(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            with suppress(OSError):  # the other side does not trust it
                _secure(self, got.tls if got.is_secure else None)
                self.answer("220 here")
                self.converse()
            self.connection.close()

        def converse(self) -> None:
            while line := self.rfile.readline().decode().strip():
                got.heard.append(line)
                word = line.split()[0].upper()
                if word == "EHLO":
                    self.answer("250-here", *(f"250-{each}" for each in got.says), "250 SIZE")
                elif word == "RCPT":
                    code = got.answers.pop(0) if got.answers else 250
                    self.answer(f"{code} said")
                elif word == "DATA":
                    self.answer("354 go on")
                    text = b""
                    while not text.endswith(b"\r\n.\r\n"):
                        text += self.rfile.readline()
                    got.taken.put(text.decode())
                    self.answer("250 taken")
                elif word == "STARTTLS" and got.tls:
                    self.answer("220 go on")
                    _secure(self, got.tls)
                else:
                    self.answer(_REPLIES.get(word, "250 ok"))

        def answer(self, *lines: str) -> None:
            self.wfile.write("".join(f"{line}\r\n" for line in lines).encode())

    server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Mail)
    got.address = f"127.0.0.1:{server.server_address[1]}"
    with in_thread(server):
        yield got
