"""OpenSSH as the user has configured it: one connection for all commands of this process.

The master connection has a socket in a private folder; it ends with this process, or a minute after
it was killed. If the user's own configuration keeps a master connection that is up, that one is
used. FAIRWAY_SSH_CONFIG names a configuration file in place of ~/.ssh/config.
"""

from __future__ import annotations

import atexit
import math
import os
import re
import shlex
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING

from fairway_agent.quick import dataclass
from fairway_boot.files import NO_CONNECTION
from fairway_core.findings import UserError
from fairway_runner.engines.outage import (
    LEAST,
    NO_LISTENER,
    SlowCallNotice,
    TargetUnavailable,
    warn,
)
from fairway_runner.engines.remote import bastion
from fairway_runner.engines.remote.connection import (
    COPY_TIMEOUT,
    GARBLED,
    Command,
    Connection,
    Ended,
    last_line,
    of_shell,
    require_success,
    run_on_terminal,
    run_program,
)

if TYPE_CHECKING:
    from fairway_core.target import SshRoute

Program = Callable[[], list[str]]
"""Returns the command line of a program, for each try anew, since its connection may differ. An
empty one only connects."""

BROKEN = 255  # OpenSSH's exit code for a failed connection
# rsync: failed to start the connection, error in the stream, timeouts; and those of ssh.
_RSYNC_BROKEN = (BROKEN, 5, 10, 12, 30, 35)
_NOT_FOUND = 127  # the host has no rsync

_OPTIONS = {
    # A connection counts as dead after 45 s without an answer.
    "ServerAliveInterval": 15,
    "ServerAliveCountMax": 3,
}
_CONNECT_TIMEOUT = 15.0
_JUST_NOW = 15.0  # seconds for which a host's answer stays valid
_SLACK = 2.0  # seconds beyond its own timeout until an ssh that connects is ended
_PREFIX = "fairway-ssh-"  # of the private folders, each with a process ID
_PERSIST = 60  # seconds for which an idle master waits for another command

# Errors that no retry fixes, by OpenSSH's message, with a hint.
_REFUSALS = {
    "Permission denied": "is the key loaded (ssh-add), and the user right? try: {ssh}",
    "Host key verification failed": "the host key is unknown, or has changed; see: {ssh}",
    "Bad configuration option": "correct the configuration of ssh, then try: {ssh}",
}
# Commands that follow a run retry anyway: a laptop that wakes up cannot resolve names at first.
_PERMANENT = _REFUSALS | {
    "Could not resolve hostname": "is the name right, and the network or tunnel up? try: {ssh}",
}

_REFUSED_HERE = re.compile(r"connect to host (127\.|localhost\b|::1\b).* refused")

_connections: dict[tuple[str, str, str, SshRoute | None], Ssh] = {}


def shared(
    host: str, user: str, ssh_route: SshRoute | None = None, others: Sequence[str] = ()
) -> Ssh:
    """Returns this process's connection to a host, or to one of the others. Raises UserError if
    ssh, its configuration, or another program for the way is missing."""
    if shutil.which("ssh") is None:
        message = "`ssh` is not on this machine's PATH"
        raise UserError.of("missing-tool", message, "install OpenSSH's client", exit_code=4)
    bastion.require_tools(ssh_route)
    config = os.environ.get("FAIRWAY_SSH_CONFIG", "")
    if config not in ("", "none") and not Path(config).exists():
        message = f"FAIRWAY_SSH_CONFIG: there is no file {config}"
        raise UserError.of("no-ssh-config", message, "name a file, or: unset FAIRWAY_SSH_CONFIG")
    key = (host, user, config, ssh_route)
    if key not in _connections:
        _connections[key] = Ssh(host, user, config, ssh_route, others=tuple(others))
    return _connections[key]


@atexit.register
def close_all() -> None:
    """Ends the connections that this process has opened."""
    while _connections:
        _connections.popitem()[1].close()


@dataclass
class Ssh(Connection):
    """A host, and the socket of the connection to it while there is one. If it was never reached
    and accepts no connection, the next of the `others` replaces it."""

    host: str
    user: str
    config: str = ""
    ssh_route: SshRoute | None = None
    others: tuple[str, ...] = ()
    has_rsync: bool = True
    socket: Path | None = None
    reached: bool = False
    folder: Path | None = field(default=None, repr=False)
    notice: SlowCallNotice = field(default_factory=SlowCallNotice, repr=False)
    _opening: subprocess.Popen[bytes] | None = field(default=None, init=False, repr=False)
    _connecting: threading.Lock = field(default_factory=threading.Lock, init=False, repr=False)
    """Held by the thread that connects: of two masters for one socket the second gets none, and
    nothing would ever end it."""
    _failed: tuple[float, Ended] | None = field(default=None, init=False, repr=False)
    """Time of the last failure to connect, and ssh's output: threads that waited for that
    connection do not retry it themselves."""
    _answered: float = field(default=-math.inf, init=False, repr=False)
    """Time at which the host last accepted a connection, or completed a command."""
    _untried: list[str] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Queues all of them for one try each, and the first one again after them."""
        self._untried = [*self.others, self.host] if self.others else []

    @property
    def name(self) -> str:
        """Name of the host as a user would write it for ssh."""
        return f"{self.user}@{self.host}" if self.user else self.host

    def begin(self) -> None:
        if not self._connecting.acquire(blocking=False):
            return  # another thread is connecting
        try:
            if self._opening is None and self.socket is None and not self._has_masters_own():
                self._opening = self._connect()
        finally:
            self._connecting.release()

    def execute(self, command: Command) -> Ended:
        line = shlex.join(command.words)
        program = lambda: [*self.command("-T"), "--", self.name, line]  # noqa: E731
        return self.run_with_retry(program, command)

    def require_answer(self, *, deadline: float) -> None:
        """Raises as `Connection.require_answer` documents. A connection made just now is an answer,
        but an older one is not: the host may be gone since."""

        def program() -> list[str]:
            is_known = time.monotonic() - self._answered < _JUST_NOW
            return [] if is_known else [*self.command("-T"), "--", self.name, "true"]

        self.run_with_retry(program, Command((), b"", deadline))

    def run_with_retry(
        self, program: Program, command: Command, broken: Sequence[int] = (BROKEN,)
    ) -> Ended:
        """Runs a program over the connection, and again if its exit code is one of `broken`."""
        with self.notice.watch(self.name, command.deadline) as watched:
            if self._has_bastion:
                watched.answered()
            while True:
                tried = self.host
                ended = self._open(max(LEAST, watched.left))
                if ended is None:
                    watched.answered()
                    words = program()
                    ended = run_program(words, command, self.name) if words else Ended(0, b"", "")
                    if ended.code not in broken:
                        self.reached = True
                        if words:
                            self._answered = time.monotonic()
                        return ended
                    with self._connecting:
                        self._drop()
                watched.failed(last_line(ended.err))
                is_fault = self._is_fault(ended.err)
                if not is_fault and self._turn_from(tried):
                    continue
                is_fault = is_fault or self._is_refused_here(ended.err)
                if is_fault or not watched.pause(reached=self.reached):
                    raise self._unreachable(ended.err)

    def upload(self, folder: Path, to: str, *, deadline: float) -> None:
        """Uploads as `Connection.upload` documents; an interrupted copy is resumed."""
        words = lambda: ["--", f"{folder}/", f"{self.name}:{to}/"]  # noqa: E731
        if not self._copied_by_rsync(words, b"", deadline):
            super().upload(folder, to, deadline=deadline)

    def download(self, folder: str, names: Sequence[str], to: Path, *, deadline: float) -> None:
        to.mkdir(parents=True, exist_ok=True)
        listed = b"".join(f"{name}\0".encode() for name in names)
        # --force: a file replaces a folder, as after a retry.
        options = ["--recursive", "--force", "--files-from=-", "--from0", "--ignore-missing-args"]
        words = lambda: [*options, "--", f"{self.name}:{folder}/", f"{to}/"]  # noqa: E731
        if not self._copied_by_rsync(words, listed, deadline):
            super().download(folder, names, to, deadline=deadline)

    def _copied_by_rsync(self, words: Program, data: bytes, deadline: float) -> bool:
        """Returns True if rsync has copied everything, with `data` as its input; False if one of
        the two sides has no rsync. `words` returns its options and places."""
        if not self.has_rsync or shutil.which("rsync") is None:
            return False

        def program() -> list[str]:
            # No owners, which would be the copying user's. -s: the remote shell sees no arguments.
            line = ["rsync", "-rlptz", "-s", "--partial", "-e", shlex.join(self.command("-T"))]
            return [*line, *words()]

        command = Command((), data, deadline, COPY_TIMEOUT)
        ended = self.run_with_retry(program, command, _RSYNC_BROKEN)
        self.has_rsync = ended.code != _NOT_FOUND
        if ended.code == GARBLED:
            for finding in of_shell(self, deadline):
                warn("%s; %s\n%s", finding.message, "files are copied whole", finding.hint)
                self.has_rsync = False
        if self.has_rsync:
            require_success(self.name, ended)
        return self.has_rsync

    def interactive(self, words: Sequence[str], *, forward: str = "") -> int:
        if self._untried and not self.reached:
            with suppress(UserError):  # ssh itself reports errors on the terminal
                self.run(["true"], deadline=_CONNECT_TIMEOUT)
        command = ["ssh", *self._configuration(), *self._options()]
        if self._has_bastion:
            # The user's own master for this address may lead to another environment's host. A
            # forwarded port needs its own connection: over a shared one `ssh -N` ends at once.
            shared = None if forward else self.socket
            command += ["-o", f"ControlPath={shared or 'none'}"]
        if forward:
            command += ["-o", "ExitOnForwardFailure=yes", "-L", forward]
            # A terminal there (-tt), so that the command ends with this connection; not ours (-n).
            command += ["-n", "-tt"] if words else ["-N"]
        else:
            command.append("-t" if not words or (os.isatty(0) and os.isatty(1)) else "-T")
        return run_on_terminal([*command, "--", self.name, *([shlex.join(words)] if words else [])])

    def command(self, *options: str) -> list[str]:
        """Returns the start of a command line that uses the connection."""
        own = ["-o", f"ControlPath={self.socket}"] if self.socket else []
        return [
            *("ssh", *self._configuration(), *self._options(), *own),
            *("-o", "BatchMode=yes", "-o", "ControlMaster=no", *options),
        ]

    @property
    def said(self) -> str:
        """Output of ssh about the connection that this process has opened."""
        try:
            return self._errors.read_text(errors="replace") if self.folder else ""
        except OSError:
            return ""

    def close(self) -> None:
        """Ends the master connection that this process has opened."""
        if self._opening is not None:
            self._opening.terminate()
            self._opening.wait()
            self._opening = None
        self._drop()
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)
            self.folder = None

    def _open(self, patience: float) -> Ended | None:
        """Connects within these seconds if there is no connection, or a few more if another thread
        is trying already; returns ssh's output if that failed."""
        asked = time.monotonic()
        with self._connecting:
            if self._failed is not None and self._failed[0] > asked:
                return self._failed[1]
            opening, self._opening = self._opening, None
            if opening is None:
                is_up = self.socket.exists() if self.socket else self._has_masters_own()
                if is_up:
                    return None
                opening = self._connect(patience)
            said = ""
            try:
                code = opening.wait(None if self._has_bastion else patience + _SLACK)
            except subprocess.TimeoutExpired:
                opening.kill()
                code, said = opening.wait(), f"no answer within {patience:.0f} s"
            except BaseException:
                opening.kill()
                raise
            if code:
                ended = Ended(BROKEN, b"", self._errors.read_text(errors="replace") or said)
                self._drop()
                self._failed = time.monotonic(), ended
                return ended
            self.reached, self._answered = True, time.monotonic()
            return None

    def _connect(self, patience: float = math.inf) -> subprocess.Popen[bytes]:
        """Starts ssh, which ends once it is connected, or after its share of these seconds."""
        if self.folder is None:
            # Removes folders of killed processes whose connections have ended. The new path is
            # short: a socket's has 108 bytes at most, some of which ssh itself needs.
            for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
                pid = folder.name.removeprefix(_PREFIX).partition("-")[0]
                with suppress(OSError):  # another user's, or removed meanwhile
                    if not Path("/proc", pid).exists() and not (folder / "ssh").exists():
                        shutil.rmtree(folder)
            self.folder = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-"))
        self.socket = self.folder / "ssh"
        share, errors = patience / (1 + len(self._untried)), self._errors
        errors.unlink(missing_ok=True)
        with errors.open("ab") as log:
            # Not a pipe, which the master would hold open for its lifetime. And -E: it closes its
            # standard error once connected, and reports only later why a forward failed.
            return subprocess.Popen(
                [
                    *("ssh", *self._configuration(), *self._options(share), "-o", "BatchMode=yes"),
                    *("-o", f"ControlPersist={_PERSIST}", "-o", f"ControlPath={self.socket}"),
                    *("-E", str(errors), "-o", "LogLevel=INFO"),
                    *("-M", "-N", "-f", "--", self.name),
                ],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
                env=os.environ | ({bastion.FAULTS: str(errors)} if self._has_bastion else {}),
            )

    def _turn_from(self, host: str) -> bool:
        """Replaces a host that was never reached by the next, at last the first again, if any."""
        if self.host != host:
            return True  # another thread has done so
        if self.reached or not self._untried:
            return False
        before, self.host = self.name, self._untried.pop(0)
        warn("%s takes no connection; trying %s", before, self.name)
        return True

    def _has_masters_own(self) -> bool:
        """Returns True if the user's own configuration keeps a master connection that is up."""
        if self.folder is not None or self._has_bastion:
            return False  # checked before, or untrusted
        query = ["ssh", *self._configuration(), *self._options(), "-O", "check", "--", self.name]
        return subprocess.run(query, capture_output=True, check=False).returncode == 0

    def _drop(self) -> None:
        if self.socket is None:
            return
        quit_ = [*self.command(), "-O", "exit", "--", self.name]
        with suppress(subprocess.TimeoutExpired):  # a hanging master ends by its own keepalive
            subprocess.run(quit_, capture_output=True, timeout=5, check=False)
        self.socket.unlink(missing_ok=True)
        self.socket = None

    @property
    def _errors(self) -> Path:
        assert self.folder is not None
        return self.folder / "errors"

    def _configuration(self) -> list[str]:
        return ["-F", self.config] if self.config else []

    def _options(self, patience: float = math.inf) -> list[str]:
        seconds = math.ceil(min(_CONNECT_TIMEOUT, patience))  # a Bastion sets its own
        way = bastion.settings(self.ssh_route, self.host)
        return bastion.options({**_OPTIONS, "ConnectTimeout": seconds, **way})

    @property
    def _has_bastion(self) -> bool:
        """True if a Bastion leads to the host. Connecting then takes a while even if all is well,
        and the address identifies the host only within the host's own network."""
        return self.ssh_route is not None and self.ssh_route.bastion is not None

    def _is_fault(self, said: str) -> bool:
        """Returns True if the problem is something else than a host that accepts no connection."""
        fault = bastion.fault_in(said)
        known = fault is not None and fault.id != NO_CONNECTION
        return known or any(text in said for text in _PERMANENT)

    def _is_refused_here(self, said: str) -> bool:
        # Nothing starts by itself on this machine, but a tunnel that was there may come back.
        return not self.reached and _REFUSED_HERE.search(said) is not None

    def _unreachable(self, said: str) -> UserError:
        fault = bastion.fault_in(said)
        if fault is not None:
            message = f"{self.name} cannot be reached: {fault.message}"
            code = 4 if fault.id == "missing-tool" else 5
            kind = TargetUnavailable if fault.id == NO_CONNECTION else UserError
            return kind.of(fault.id, message, fault.hint, exit_code=code)
        way = bastion.options(bastion.settings(self.ssh_route, self.host))
        by_hand = shlex.join(["ssh", *self._configuration(), *way, self.name])
        hints = (hint for text, hint in _PERMANENT.items() if text in said)
        hint = next(hints, None) or bastion.hint_for(self.host, self.ssh_route)
        message = f"{self.name} cannot be reached: {last_line(said) or 'the connection broke'}"
        hint = hint.format(ssh=by_hand)
        if any(text in said for text in _REFUSALS):
            return UserError.of("refused-connection", message, hint, exit_code=5)
        if self._is_refused_here(said):
            return UserError.of(NO_LISTENER, message, hint, exit_code=5)
        return TargetUnavailable.of(NO_CONNECTION, message, hint, exit_code=5)
