"""Calls of a server: answers as plain data, its refusals as findings, its silence said plainly."""

from __future__ import annotations

import json
import socket
import ssl
import threading
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from fairway_cli.server.address import Address, token_for
from fairway_core.findings import Finding, Location, Severity, UserError
from fairway_core.overrides import COMMAND_LINE
from fairway_runner.engines.deadline import deadline

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_PATIENCE = 60.0  # seconds without a byte; streams say every 15 that they are there
_LONG = 1800.0  # seconds for calls that answer when something has ended
_LARGEST = 256 << 20  # bytes of an answer
_LONGEST_EVENT = 8 << 20  # bytes: a server tells 256 KiB at once, escaped 1.5 MiB
_MOST_COMMENTS = 1_000_000  # lines of a stream without an event: half a year of signs of life
_MOST_FINDINGS = 100
_FAILED = 5  # as commands end whose service does not answer
_CODES = {409: 3}


@dataclass(frozen=True)
class Answer:
    """What a server has said."""

    body: bytes
    headers: dict[str, str]


@dataclass
class Allowance:
    """How many answers and bytes one command reads of a server, which may never stop answering."""

    answers: int
    size: int

    def take(self, server: Server, size: int) -> None:
        """One more answer; UserError where it is too much."""
        self.answers -= 1
        self.size -= size
        if self.answers < 0 or self.size < 0:
            raise server.strange("its answer does not end")


@dataclass
class Limit:
    """Ends a connection whose answer takes longer than the given seconds in all, of which each byte
    may have come in time."""

    connection: HTTPConnection
    seconds: float
    opened: socket.socket | None = None
    """The connection's, which forgets it where an answer goes on to the end of the connection."""
    over: TimeoutError | None = None
    _until: float = 0.0
    _ended: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> None:
        self.again()
        threading.Thread(target=self._look, name="limit", daemon=True).start()

    def __exit__(self, *_: object) -> None:
        self._ended.set()

    def again(self) -> None:
        """What comes from now on has all of the time again."""
        self._until = time.monotonic() + self.seconds

    def require(self) -> None:
        """TimeoutError where the answer was cut off, which need not be seen from what came."""
        if self.over is not None:
            raise self.over

    def _look(self) -> None:
        while (left := self._until - time.monotonic()) > 0:
            if self._ended.wait(left):
                return
        self.over = TimeoutError(f"its answer did not end within {self.seconds:g} s")
        found = self.connection.sock or self.opened
        if found is not None:
            with suppress(OSError):
                socket.socket.shutdown(found, socket.SHUT_RDWR)  # a TLS one is being read


@dataclass(frozen=True)
class Sent:
    """What findings may be about: a file by its name and text, and what is set over it."""

    file: str = ""
    text: str = ""
    assignments: tuple[str, ...] = ()

    def line(self, file: str, line: int, column: int, path: str) -> str | None:
        """The line that is meant; None where nothing was sent that has it."""
        if file == COMMAND_LINE:
            shown = [f"-s {each}" for each in self.assignments if _sets(each, path)]
            fit = [each for each in shown if each.find("=") + 2 == column]
            return fit[-1].replace("\n", "\\n") if fit else None
        lines = self.text.splitlines() if file == self.file else []
        return lines[line - 1] if 0 < line <= len(lines) and column > 0 else None


def _sets(assignment: str, path: str) -> bool:
    key = assignment.partition("=")[0]
    return f"{path}.".startswith(f"{key}.") or f"{key}.".startswith(f"{path}.")


@dataclass(frozen=True)
class Server:
    """A server, with the URL that it is known by."""

    address: Address
    sent: Sent = Sent()
    """The file that is sent: its lines are shown where they are wrong."""

    @classmethod
    def of(cls, url: str) -> Server:
        """The one at a URL; UserError where that cannot be."""
        return cls(Address.of(url))

    def get(self, path: str, query: Sequence[tuple[str, str]] = ()) -> Any:
        """What a call answers, as plain data."""
        return self.data(self.answer("GET", path, query))

    def post(
        self,
        path: str,
        body: object = None,
        query: Sequence[tuple[str, str]] = (),
    ) -> Any:
        """What a call that acts answers; it may take as long as what it does."""
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        return self.data(self.answer("POST", path, query, content))

    def answer(
        self, method: str, path: str, query: Sequence[tuple[str, str]] = (), body: bytes = b""
    ) -> Answer:
        """The same with its headers, unread."""
        patience, whole = (_PATIENCE, deadline()) if method == "GET" else (_LONG, _LONG)
        with self._asked(method, path, query, body, patience, whole) as (response, _):
            content = response.read(_LARGEST + 1)
            if len(content) > _LARGEST:
                raise self.strange("its answer does not end")
            return Answer(content, {name.lower(): value for name, value in response.getheaders()})

    def data(self, answer: Answer) -> Any:
        """The data of an answer in JSON; UserError where it is none."""
        try:
            return json.loads(answer.body)
        except (ValueError, RecursionError):
            kind = answer.headers.get("content-type", "nothing that it names")
            raise self.strange(f"its answer is {kind}") from None

    @contextmanager
    def events(
        self, path: str, query: Sequence[tuple[str, str]], last_id: str
    ) -> Iterator[Iterator[tuple[str, str, str]]]:
        """Events as they come, however long that takes: of each its id, name and data."""
        more = {"Accept": "text/event-stream", **({"Last-Event-ID": last_id} if last_id else {})}
        with self._asked("GET", path, query, b"", _PATIENCE, _PATIENCE, more) as (response, limit):
            yield self._events(response, limit)

    @contextmanager
    def understood(self) -> Iterator[None]:
        """UserError where what was answered is not what was expected."""
        try:
            yield
        except (KeyError, TypeError, ValueError, AttributeError, IndexError):
            raise self.strange("its answer is not what was asked for") from None

    def strange(self, what: str) -> UserError:
        """What is said of a server that is none of ours."""
        message = f"{self.address.url} does not answer as `fairway serve` does: {what}"
        hint = "is the URL right? a sign-in page in front of it accepts no token"
        return UserError.of("strange-server", message, hint, exit_code=_FAILED)

    def old(self, call: str) -> UserError:
        """What is said of one that has not a call."""
        message = f"the server at {self.address.url} is older than this program: it has no {call}"
        return UserError.of("old-server", message, "update Fairway there", exit_code=_FAILED)

    @contextmanager
    def _asked(
        self,
        method: str,
        path: str,
        query: Sequence[tuple[str, str]],
        body: bytes,
        patience: float,
        whole: float,
        headers: dict[str, str] | None = None,
    ) -> Iterator[tuple[HTTPResponse, Limit]]:
        """The answer to one request: never that of another place, to which the token would go. Each
        part of it has the seconds of `patience`, and all of it those of `whole`."""
        address, sent = self.address, {"Authorization": f"Bearer {token_for(self.address)}"}
        target = f"{address.path}/api/v1{path}" + (f"?{urlencode(query)}" if query else "")
        connection = _connection(address, max(1.0, min(patience, whole)))
        limit = Limit(connection, whole)
        try:
            with limit:
                connection.connect()
                limit.opened = connection.sock
                connection.request(method, target, body or None, {**sent, **(headers or {})})
                with connection.getresponse() as response:
                    if not 200 <= response.status < 300:
                        raise self._refused(response, f"{method} {path}")
                    yield response, limit
                limit.require()
        except (OSError, HTTPException) as error:
            raise self._away(limit.over or error) from None
        finally:
            connection.close()

    def _events(self, response: HTTPResponse, limit: Limit) -> Iterator[tuple[str, str, str]]:
        name, event_id, data, size, lines = "", "", "", 0, 0
        while line := response.readline(_LONGEST_EVENT + 1):
            limit.again()
            lines += 1
            if lines > _MOST_COMMENTS:
                raise self.strange("its comments do not end")
            field, _, value = line.decode("utf-8", "replace").rstrip("\r\n").partition(": ")
            size += len(line)
            if size > _LONGEST_EVENT:
                raise self.strange("one of its events does not end")
            if field == "id":
                event_id = value
            elif field == "event":
                name = value
            elif field == "data":
                data += value
            elif not field:
                if data:
                    yield event_id, name, data
                    lines = 0
                name, data, size = "", "", 0

    def _away(self, error: Exception) -> UserError:
        why = getattr(error, "strerror", None) or str(error) or type(error).__name__
        message = f"{self.address.url} does not answer: {why}"
        hint = "does `fairway serve` run there, and does the port or the proxy lead to it?"
        return UserError.of("server-away", message, hint, exit_code=_FAILED)

    def _refused(self, response: HTTPResponse, call: str) -> UserError:
        status, kind = response.status, response.headers.get_content_type()
        if status // 100 == 3:
            return self.strange(f"it redirects elsewhere, with status {status}")
        try:
            told = json.loads(response.read(_LARGEST))
            findings = found_in(told["findings"], self.sent)
            code = told.get("exit_code")
        except (ValueError, KeyError, TypeError, RecursionError, AttributeError):
            return self.strange(f"status {status}, {kind}")
        if status in (404, 405) and [each.id for each in findings] == ["no-such-page"]:
            return self.old(call)
        if type(code) is not int or not 0 < code < 256:
            code = _CODES.get(status, _FAILED if status >= 500 else 2)
        return UserError(findings, exit_code=code)


def quoted(text: str) -> str:
    """A run's name as a part of a path; UserError for what leads elsewhere, and names none."""
    if not text or "/" in text or text in (".", ".."):
        hint = "list them: fairway list"
        raise UserError.of("unknown-run", f"there is no run `{text[:80]}`", hint)
    return quote(text, safe="")


def found_beside(answer: Answer, sent: Sent = Sent()) -> list[Finding]:
    """The findings beside a list; the caller sees to it that the header is there."""
    try:
        return found_in(json.loads(answer.headers["findings"]), sent)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return []


def found_in(told: list[dict[str, Any]], sent: Sent = Sent()) -> list[Finding]:
    """Findings as a server tells them, at lines of the file that was sent to it."""
    return [_finding(each, sent) for each in told[:_MOST_FINDINGS]]


def _finding(facts: dict[str, Any], sent: Sent) -> Finding:
    """A finding as a server tells it, with the line of what was sent to it."""
    file, line, column = facts.get("file"), facts.get("line"), facts.get("column")
    message, location, path = str(facts["message"]), None, str(facts.get("path") or "")
    if isinstance(file, str) and type(line) is int and type(column) is int:
        text = sent.line(file, line, column, path)
        if text is None:
            message = f"{file}:{line}:{column}: {message}"
        else:
            length = facts.get("length")
            location = Location(file, line, column, text, length if type(length) is int else 1)
    return Finding(
        id=str(facts["id"]),
        message=message,
        hint=str(facts.get("hint") or ""),
        path=path,
        severity=Severity.WARNING if facts.get("severity") == "warning" else Severity.ERROR,
        location=location,
    )


def _connection(address: Address, patience: float) -> HTTPConnection:
    if address.is_encrypted:
        context = ssl.create_default_context()
        return HTTPSConnection(address.host, address.port, timeout=patience, context=context)
    return HTTPConnection(address.host, address.port, timeout=patience)
