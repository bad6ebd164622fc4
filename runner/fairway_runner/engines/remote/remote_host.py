"""The main host of a cluster and the folder that all its nodes see.

Fairway's programs there are modules of `fairway_agent`, which it uploads: each call is one command
on the host, however much it looks at.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from fairway_agent.main import MARK, OLD_PYTHON, OLDEST
from fairway_agent.quick import dataclass
from fairway_agent.records import InvalidRecord, JsonRecord
from fairway_boot.files import NO_ANSWER
from fairway_core import archives
from fairway_core.findings import UserError
from fairway_runner.engines.outage import USUAL, TargetUnavailable
from fairway_runner.engines.remote import ssh
from fairway_runner.engines.remote.connection import (
    COMMAND_TIMEOUT,
    UNEXPECTED_ANSWER,
    Connection,
    Ended,
    Here,
    is_here,
    last_line,
)

if TYPE_CHECKING:
    from fairway_core.target import SshRoute

R = TypeVar("R", bound="JsonRecord")

_NO_BUNDLE = 66
_NOT_OURS = 68
_NO_PYTHON = 127

_CALL = """case $1 in "~"/*) shared=$HOME/${1#??} ;; *) shared=$1 ;; esac
bundle=$shared/fairway/$2
[ -f "$bundle/__main__.py" ] || exit 66
exec python3 -s -c "$3" "$bundle" "$4" "$5" call "$6" "$shared" """

# `shared` may come from a project that was only cloned, and lead to files of it. So the programs
# there run only if they are ours: without others, without links, and without bytecode that came
# with them, in place of which their user's own is kept. Ours have no times, which names others.
_RUN_OURS = """import sys
sys.path[:] = filter(None, sys.path)
import hashlib, os, runpy, stat
bundle, content, size, *words = sys.argv[1:]
found, odd, ours = [], "", True
def stop(error):
    raise error
for folder, folders, files in os.walk(bundle, onerror=stop):
    folders[:] = [each for each in folders if each != "__pycache__"]
    for each in files + folders:
        path = os.path.join(folder, each)
        facts = os.lstat(path)
        if each[0] != "." and not stat.S_ISDIR(facts.st_mode):
            ours = ours and stat.S_ISREG(facts.st_mode)
            odd = path if facts.st_mtime else odd
            found.append((os.path.relpath(path, bundle), path, facts.st_size))
digest = hashlib.sha256()
ours = ours and sum(each[2] for each in found) == int(size)
for name, path, _ in sorted(found) if ours else ():
    with open(path, "rb") as file:
        data = file.read()
    named = ("%d %s" % (len(data), name)).encode("utf-8", "surrogateescape")
    digest.update(named + bytes(1) + data)
if digest.hexdigest() != content:
    sys.stderr.write(odd)
    sys.exit(68)
sys.pycache_prefix = os.path.join("/", os.path.expanduser("~/.cache/fairway/agent"))
sys.argv[1:] = words
runpy.run_path(bundle, run_name="__main__")
"""

# The files appear atomically, all may read them, and a second writer leaves them unchanged. Tar
# does not restore their owners, even as root: see `connection.UNPACK`.
SHIP = """case $1 in "~"/*) set -- "$HOME/${1#??}" "$2" ;; esac
set -e
umask go+rx
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
        ours = [archives.agent_digest(), _RUN_OURS, *map(str, archives.agent_content())]
        words = ["sh", "-c", _CALL, "sh", self.shared, *ours, called]
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
        except InvalidRecord as error:
            raise self.unexpected_answer(error) from None

    def unexpected_answer(self, error: InvalidRecord) -> UserError:
        """Returns the error for an answer that no Fairway host gives."""
        message = f"{self.connection.name} gave an answer that cannot be read: {error}"
        return UserError.of("host-failed", message, UNEXPECTED_ANSWER, exit_code=5)

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
        if ended.code == _NOT_OURS:
            there = f"{self.shared}/fairway/{archives.agent_digest()}"
            odd = last_line(ended.err) or there
            message = f"{odd} on {host} is not what Fairway puts there, and nothing there was run"
            quoted = shlex.quote(there).replace("'~/", "~/'", 1)
            hint = f"did it come with a project? if not, on {host}: rm -r {quoted}"
            raise UserError.of("foreign-agent", message, hint, exit_code=5)
        if ended.code in (_NO_PYTHON, OLD_PYTHON):
            oldest = ".".join(map(str, OLDEST))
            message = f"{host} has no python3 of at least {oldest}"
            hint = "install it there, so that a shell without a terminal finds it on PATH"
            raise UserError.of("missing-tool", message, hint, exit_code=4)
        message = f"{host} gave no answer: {last_line(ended.err) or f'exit code {ended.code}'}"
        raise UserError.of("host-failed", message, by_hand, exit_code=5)


def connection_to(
    host: str, user: str, ssh_route: SshRoute | None = None, others: Sequence[str] = ()
) -> Connection:
    """Returns the process's connection to a host, which may be this machine. Raises UserError for
    an empty name, and if ssh, or another program for the way, is missing."""
    if not host:
        hint = "`host` is a name or an address, or localhost for this machine itself"
        raise UserError.of("no-address", "the target does not say which host to connect to", hint)
    if is_here(host):
        return Here()
    return ssh.shared(host, user, ssh_route, others)
