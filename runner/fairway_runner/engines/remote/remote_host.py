"""The main host of a cluster and the folder that all its nodes see.

Fairway's programs there are modules of `fairway_agent`, which it uploads: each call is one command
on the host, however much it looks at.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from fairway_agent.main import MARK, OLD_PYTHON, OLDEST
from fairway_agent.quick import dataclass
from fairway_agent.records import JsonRecord, Unfit
from fairway_boot.files import NO_ANSWER
from fairway_core import archives
from fairway_core.findings import UserError
from fairway_runner.engines.outage import USUAL, TargetUnavailable
from fairway_runner.engines.remote import ssh
from fairway_runner.engines.remote.connection import (
    COMMAND_TIMEOUT,
    STRANGE,
    Connection,
    Ended,
    Here,
    is_here,
    last_line,
)

if TYPE_CHECKING:
    from fairway_core.target import Reach

R = TypeVar("R", bound="JsonRecord")

_NO_BUNDLE = 66
_NO_PYTHON = 127

_CALL = """case $1 in "~"/*) set -- "$HOME/${1#??}" "$2" "$3" ;; esac
bundle=$1/fairway/$2
[ -f "$bundle/__main__.py" ] || exit 66
exec python3 -s "$bundle" call "$3" "$1" """

# The files appear atomically, and a second writer leaves them unchanged. Tar does not restore their
# owners, even as root: see `connection.UNPACK`.
SHIP = """case $1 in "~"/*) set -- "$HOME/${1#??}" "$2" ;; esac
set -e
mkdir -p "$1/fairway"
draft=$(mktemp -d "$1/fairway/.XXXXXX")
chmod 755 "$draft"
tar --no-same-owner -xzf - -C "$draft"
mv -T "$draft" "$1/fairway/$2" 2>/dev/null || { rm -rf "$draft"; [ -d "$1/fairway/$2" ]; }"""


@dataclass
class RemoteHost:
    """A main host by its `connection`, the folder `shared`, and for how long a call is retried."""

    connection: Connection
    shared: str
    deadline: float = USUAL

    def call(
        self,
        called: str,
        request: JsonRecord,
        kind: type[R],
        payload: bytes = b"",
        *,
        timeout: float = COMMAND_TIMEOUT,
    ) -> R:
        """Calls a function there, `MODULE.VERB`, possibly twice; returns its answer. Raises
        UserError if the host refuses, gives no answer, or one of another type."""
        words = ["sh", "-c", _CALL, "sh", self.shared, archives.agent_digest(), called]
        data = json.dumps(request.to_json()).encode() + b"\n" + payload
        ended = self.connection.run(words, input=data, deadline=self.deadline, timeout=timeout)
        if ended.code == _NO_BUNDLE:
            name, files = archives.agent()
            ship = ["sh", "-c", SHIP, "sh", self.shared, name]
            shipped = self.connection.run(ship, input=files, deadline=self.deadline)
            if shipped.code:
                message = f"nothing can be written to {self.shared} on {self.connection.name}"
                hint = f"{last_line(shipped.err)}\nit must be a folder that you may write to"
                raise UserError.of("unwritable-folder", message, hint, exit_code=5)
            ended = self.connection.run(words, input=data, deadline=self.deadline, timeout=timeout)
        try:
            return kind.from_json(self._answer(ended))
        except Unfit as error:
            raise self.strange(error) from None

    def strange(self, error: Unfit) -> UserError:
        """Returns the error for an answer that no Fairway host gives."""
        message = f"{self.connection.name} gave an answer that cannot be read: {error}"
        return UserError.of("host-failed", message, STRANGE, exit_code=5)

    def _answer(self, ended: Ended) -> Any:
        last = ended.out.rstrip(b"\n").rpartition(b"\n")[2].decode(errors="replace")
        host = self.connection.name
        by_hand = f"see what this prints: ssh {host} python3 --version"
        if ended.code == 0 and last.startswith(MARK):
            try:
                value = json.loads(last.removeprefix(MARK))
                if "answer" in value:
                    return value["answer"]
                fault = {name: str(value["fault"][name]) for name in ("id", "message", "hint")}
                code = int(value["fault"]["exit_code"])
            except (ValueError, TypeError, KeyError, RecursionError):
                message = f"{host} gave an answer that cannot be read"
                raise UserError.of("host-failed", message, by_hand, exit_code=5) from None
            kind = TargetUnavailable if fault["id"] == NO_ANSWER else UserError
            raise kind.of(fault["id"], fault["message"], fault["hint"], exit_code=code)
        if ended.code in (_NO_PYTHON, OLD_PYTHON):
            oldest = ".".join(map(str, OLDEST))
            message = f"{host} has no python3 of at least {oldest}"
            hint = "install it there, so that a shell without a terminal finds it on PATH"
            raise UserError.of("missing-tool", message, hint, exit_code=4)
        message = f"{host} gave no answer: {last_line(ended.err) or f'exit code {ended.code}'}"
        raise UserError.of("host-failed", message, by_hand, exit_code=5)


def connection_to(
    host: str, user: str, reach: Reach | None = None, others: Sequence[str] = ()
) -> Connection:
    """Returns the process's connection to a host, which may be this machine. Raises UserError for
    an empty name, and if ssh, or another program for the way, is missing."""
    if not host:
        hint = "`host` is a name or an address, or localhost for this machine itself"
        raise UserError.of("no-address", "the target does not say which host to connect to", hint)
    if is_here(host):
        return Here()
    return ssh.shared(host, user, reach, others)
