"""Calls of a server: its address and token, answers as plain data, refusals as findings."""

from __future__ import annotations

import ipaddress
import json
import os
import re
import socket
import ssl
import threading
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode, urlsplit

from fairway_boot.files import NO_ANSWER
from fairway_core.findings import Finding, Location, Severity, UserError
from fairway_core.overrides import COMMAND_LINE
from fairway_core.project_folder import find_project
from fairway_runner.engines.outage import TargetUnavailable, deadline

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import BinaryIO

    Query = Sequence[tuple[str, str]]

TOKEN = "FAIRWAY_SERVER_TOKEN"  # noqa: S105 - the name of a variable
TOKEN_FILE = "FAIRWAY_SERVER_TOKEN_FILE"  # noqa: S105 - as above
_HOST = re.compile(r"(?:[a-z0-9_-]{1,63}\.)*[a-z0-9_-]{1,63}\.?|[0-9a-f:.]*:[0-9a-f:.]*")
_PATH = re.compile(r"[\x21-\x7e]*")
_FITS = re.compile(r"[\x21-\x7e]+")  # allowed in a header


@dataclass(frozen=True)
class Address:
    """Address of a server; `path` is the prefix of its calls."""

    host: str
    port: int
    is_encrypted: bool
    path: str = ""

    @classmethod
    def of(cls, url: str) -> Address:
        """Parses a URL. Raises UserError for other text, and if others could read the calls."""
        try:
            parts = urlsplit(url)
            host, port = parts.hostname or "", parts.port
        except ValueError:
            host, port, parts = "", None, urlsplit("")
        is_plain = not (parts.username or parts.password or parts.query or parts.fragment)
        is_address = _HOST.fullmatch(host) and _PATH.fullmatch(parts.path)
        if not is_address or not is_plain or parts.scheme not in ("http", "https"):
            shown = url[:80] if "@" not in url and "?" not in url else "…"  # without secrets
            message = f"`--server {shown}` is not the URL of a server"
            raise UserError.of("bad-value", message, "write https://HOST, or http://127.0.0.1:PORT")
        is_encrypted = parts.scheme == "https"
        if not is_encrypted and not is_loopback(host):
            message = f"http://{host} would send the token unencrypted"
            hint = "write https://, or forward a port: ssh -L 8765:/PATH/TO/page.sock HOST"
            raise UserError.of("no-encryption", message, hint)
        usual = 443 if is_encrypted else 80
        return cls(host, port or usual, is_encrypted, parts.path.rstrip("/"))

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http{'s' if self.is_encrypted else ''}://{host}:{self.port}{self.path}"


def is_loopback(host: str) -> bool:
    """Returns True if everything sent there stays on this machine."""
    with suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"


def token_for(address: Address) -> str:
    """Returns the token from FAIRWAY_SERVER_TOKEN, from the file that FAIRWAY_SERVER_TOKEN_FILE
    names, or from `.fairway/serve.json` of the current project, if that is its server. Raises
    UserError if there is none."""
    if token := os.environ.get(TOKEN, "").strip():
        return _fitting(token, TOKEN)
    if name := os.environ.get(TOKEN_FILE):
        try:
            with Path(name).open(encoding="utf-8") as file:
                return _fitting(file.read(_LONGEST_TOKEN).strip(), name)
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is not text"
            raise UserError.of("no-token", f"{name}: {why}", f"{TOKEN_FILE} names it") from None
    with suppress(OSError, ValueError, KeyError, TypeError, RecursionError, UserError):
        found = json.loads((find_project()[0] / ".fairway" / "serve.json").read_text("ascii"))
        known = Address.of(found["url"])
        # A socket's address has no port: only the user knows which forwarded ports lead to it.
        has_port = urlsplit(found["url"]).port is not None and known.port == address.port
        if has_port and is_loopback(known.host) and is_loopback(address.host):
            token = str(found["token"])
    if token:
        return _fitting(token, "serve.json")
    message = f"there is no token for {address.url}"
    raise UserError.of("no-token", message, f"set {TOKEN}, or {TOKEN_FILE} to a file that has it")


def _fitting(token: str, where: str) -> str:
    if _FITS.fullmatch(token):
        return token
    message = f"{where} has no token: one line of letters and digits"
    raise UserError.of("no-token", message, "copy `token` of .fairway/serve.json on the server")


_LONGEST_TOKEN = 1 << 16  # characters, with what is around it
_PATIENCE = 60.0  # seconds without receiving a byte
_LONG = 1800.0  # seconds for requests that are answered when something ends
_LARGEST = 256 << 20  # bytes of an answer in memory
_CHUNK = 1 << 20
_MOST_FINDINGS = 100
_CODES = {409: 3}


@dataclass(frozen=True)
class Answer:
    """An answer with its headers, by lower-case names."""

    body: bytes
    headers: dict[str, str]


@dataclass(frozen=True)
class Sent:
    """The file that findings may refer to, by its name and text, and the settings over it."""

    file: str = ""
    text: str = ""
    assignments: tuple[str, ...] = ()

    def line(self, file: str, line: int, column: int, path: str) -> str | None:
        """Returns the line that a finding means; None if nothing that was sent has it."""
        if file == COMMAND_LINE:
            fit = []
            for each in self.assignments:
                key = each.partition("=")[0]
                is_of = f"{path}.".startswith(f"{key}.") or f"{key}.".startswith(f"{path}.")
                if is_of and f"-s {each}".find("=") + 2 == column:
                    fit.append(f"-s {each}")
            return fit[-1].replace("\n", "\\n") if fit else None
        lines = self.text.splitlines() if file == self.file else []
        return lines[line - 1] if 0 < line <= len(lines) and column > 0 else None


@dataclass(frozen=True)
class Server:
    """A server, with the file that is sent to it, whose lines are shown in errors."""

    address: Address
    sent: Sent = Sent()

    def get(self, path: str, query: Query = ()) -> Any:
        return self.data(self.answer("GET", path, query))

    def post(self, path: str, body: object = None, query: Query = ()) -> Any:
        """Returns the data of a call that acts, which may take as long as the action."""
        if not isinstance(body, bytes):
            body = b"" if body is None else json.dumps(body).encode()
        return self.data(self.answer("POST", path, query, body))

    def answer(self, method: str, path: str, query: Query = (), body: bytes = b"") -> Answer:
        content = BytesIO()
        headers = self._call(method, path, query, body, content, _LARGEST)
        return Answer(content.getvalue(), headers)

    def download(self, path: str, out: BinaryIO) -> None:
        """Writes the answer of a call to `out`, whatever its size."""
        self._call("GET", path, (), b"", out, None)

    def data(self, answer: Answer) -> Any:
        """Returns the data of a JSON answer. Raises UserError if it is none."""
        try:
            return json.loads(answer.body)
        except (ValueError, RecursionError):
            kind = answer.headers.get("content-type", "nothing that it names")
            raise self.unexpected_answer(f"its answer is {kind}") from None

    @contextmanager
    def understood(self) -> Iterator[None]:
        """Raises UserError if an answer in the block is not the expected one."""
        try:
            yield
        except (KeyError, TypeError, ValueError, AttributeError, IndexError, StopIteration):
            raise self.unexpected_answer("its answer is not what was asked for") from None

    def unexpected_answer(self, what: str) -> UserError:
        """Returns the error for a server that does not answer as `fairway serve` does."""
        message = f"{self.address.url} does not answer as `fairway serve` does: {what}"
        hint = "is the URL right? a sign-in page in front of it accepts no token"
        return UserError.of("strange-server", message, hint, exit_code=5)

    def _call(
        self, method: str, path: str, query: Query, body: bytes, out: BinaryIO, most: int | None
    ) -> dict[str, str]:
        """Makes one call, and follows no redirect: the token would go there. An answer in memory
        ends before the deadline, though each of its bytes may come in time."""
        address = self.address
        headers = {"Authorization": f"Bearer {token_for(address)}"}
        seconds = _LONG if method == "POST" else deadline()
        patience = _LONG if method == "POST" else max(1.0, min(_PATIENCE, seconds))
        connection = HTTPConnection(address.host, address.port, timeout=patience)
        if address.is_encrypted:
            place, context = (address.host, address.port), ssl.create_default_context()
            connection = HTTPSConnection(*place, timeout=patience, context=context)
        target = f"{address.path}/api/v1{path}" + (f"?{urlencode(query)}" if query else "")
        end, timer = time.monotonic() + seconds, None
        try:
            connection.connect()
            if most is not None:
                timer = threading.Timer(seconds, _shut, [connection.sock])
                timer.daemon = True
                timer.start()
            connection.request(method, target, body or None, headers)
            with connection.getresponse() as response:
                if not 200 <= response.status < 300:
                    raise self._refused(response, f"{method} {path}")
                size = 0
                while chunk := response.read1(_CHUNK):
                    size += out.write(chunk)
                    if most is not None and size > most:
                        raise self.unexpected_answer("its answer does not end")
                if response.length or (timer and time.monotonic() >= end):
                    raise TimeoutError("its answer was cut off")
                return {name.lower(): value for name, value in response.getheaders()}
        except (OSError, HTTPException) as error:
            if timer and time.monotonic() >= end:  # this process has closed the connection itself
                late = TimeoutError(f"its answer did not end within {seconds:.3g} s")
                raise self.away(late) from None
            raise self.away(error) from None
        finally:
            if timer is not None:
                timer.cancel()
            connection.close()

    def away(self, error: Exception) -> UserError:
        """Returns the error for a server that does not answer now."""
        why = getattr(error, "strerror", None) or str(error) or type(error).__name__
        message = f"{self.address.url} does not answer: {why}"
        hint = "does `fairway serve` run there, and does the port or the proxy lead to it?"
        return TargetUnavailable.of(NO_ANSWER, message, hint, exit_code=5)

    def _refused(self, response: HTTPResponse, call: str) -> UserError:
        status, kind = response.status, response.headers.get_content_type()
        if status // 100 == 3:
            return self.unexpected_answer(f"it redirects elsewhere, with status {status}")
        try:
            body = json.loads(response.read(_LARGEST))
            findings = found_in(body["findings"], self.sent)
            code = body.get("exit_code")
        except (ValueError, KeyError, TypeError, RecursionError, AttributeError):
            return self.unexpected_answer(f"status {status}, {kind}")
        if [each.id for each in findings] in (["no-such-page"], ["wrong-method"]):
            message = f"the server at {self.address.url} is older than this program: it has no"
            hint = "update Fairway there"
            return UserError.of("old-server", f"{message} {call}", hint, exit_code=5)
        if type(code) is not int or not 0 < code < 256:
            code = _CODES.get(status, 5 if status >= 500 else 2)
        return UserError(findings, exit_code=code)


def _shut(opened: socket.socket) -> None:
    with suppress(OSError):
        socket.socket.shutdown(opened, socket.SHUT_RDWR)  # TLS sockets are being read


def quoted(text: str) -> str:
    """Returns a run's name as a part of a path. Raises UserError for one that leads elsewhere."""
    if not text or "/" in text or text in (".", ".."):
        hint = "list them: fairway list"
        raise UserError.of("unknown-run", f"there is no run `{text[:80]}`", hint)
    return quote(text, safe="")


def found_beside(answer: Answer, sent: Sent = Sent()) -> list[Finding]:
    """Returns the findings in a header that accompanies a list; none if there is no valid one."""
    with suppress(ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return found_in(json.loads(answer.headers["findings"]), sent)
    return []


def found_in(listed: list[dict[str, Any]], sent: Sent = Sent()) -> list[Finding]:
    """Returns a server's findings, up to 100, at lines of the file that was sent to it."""
    found = []
    for facts in listed[:_MOST_FINDINGS]:
        file, line, column = facts.get("file"), facts.get("line"), facts.get("column")
        message, location, path = str(facts["message"]), None, str(facts.get("path") or "")
        if isinstance(file, str) and type(line) is int and type(column) is int:
            text = sent.line(file, line, column, path)
            if text is None:
                message = f"{file}:{line}:{column}: {message}"
            else:
                length = facts.get("length")
                location = Location(file, line, column, text, length if type(length) is int else 1)
        severity = Severity.WARNING if facts.get("severity") == "warning" else Severity.ERROR
        hint = str(facts.get("hint") or "")
        found.append(Finding(str(facts["id"]), message, hint, path, severity, location))
    return found
