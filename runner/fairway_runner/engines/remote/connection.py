"""Connection that runs commands and copies folders on the main host of a cluster."""

from __future__ import annotations

import io
import os
import posixpath
import shutil
import signal
import subprocess
import sys
import threading
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairway_agent.quick import dataclass
from fairway_boot.files import NO_ANSWER
from fairway_core.findings import Finding, Severity, UserError, printable
from fairway_runner.engines.outage import TargetUnavailable
from fairway_runner.runs.output_files import say_left_out

if TYPE_CHECKING:
    import tarfile

UNEXPECTED_ANSWER = "nothing was taken from its answer; is it still the same host?"
"""Hint if a cluster sent an answer of an unexpected form."""

# Seconds for one command on the host: longer ones hang, as file systems can.
COMMAND_TIMEOUT = 300.0
_INTERRUPTED = 130


@dataclass(frozen=True)
class Ended:
    """A command that has ended on the host."""

    code: int
    out: bytes
    err: str


Into = Callable[[], AbstractContextManager[int]]
"""Context manager around each try of a program, which yields the descriptor for its output; each
try writes from the beginning."""


@dataclass(frozen=True)
class Command:
    """A command for the host and its input: for how many seconds it is retried and how long it may
    take; the destination of its output, if that is not kept in memory."""

    words: Sequence[str]
    data: bytes
    deadline: float
    timeout: float = COMMAND_TIMEOUT
    into: Into | None = None


class Connection:
    """The main host. Methods raise UserError with exit code 5 if it cannot be reached. Folders are
    copied as tar files, unless something better is available."""

    has_rsync: bool = False
    """True if both sides have rsync, or may have it: not checked yet."""

    @property
    def name(self) -> str:
        """Name of the host as a person would write it."""
        raise NotImplementedError

    def begin(self) -> None:
        """Connects in the background; failures are raised on first use."""

    def run(
        self,
        words: Sequence[str],
        *,
        input: bytes = b"",  # noqa: A002
        deadline: float,
        timeout: float = COMMAND_TIMEOUT,
    ) -> Ended:
        """Executes a command, whose output is kept in memory."""
        return self.execute(Command(words, input, deadline, timeout))

    def execute(self, command: Command) -> Ended:
        """Runs a command to its end, and again if the connection breaks, until its deadline is
        over: commands must be idempotent."""
        raise NotImplementedError

    def require_answer(self, *, deadline: float) -> None:
        """Raises UserError if the host does not answer."""
        self.run(["true"], deadline=deadline)

    def upload(self, folder: Path, to: str, *, deadline: float) -> None:
        """Copies the content of a folder of this machine into one there, which is created."""
        import tarfile  # read-only commands copy nothing

        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w:gz", compresslevel=1) as files:
            files.add(folder, arcname=".")
        words = ["bash", "-c", UNPACK, "bash", to]
        command = Command(words, buffer.getvalue(), deadline, COPY_TIMEOUT)
        require_success(self.name, self.execute(command))

    def download(self, folder: str, names: Sequence[str], to: Path, *, deadline: float) -> None:
        """Copies files and folders, by their paths below a folder there, to the same below
        one here; those that do not exist are left out."""
        to.mkdir(parents=True, exist_ok=True)
        listed = b"".join(f"{name}\0".encode() for name in names)
        words = ["bash", "-c", PACK, "bash", folder]
        unpacking = Unpacking(self.name, names, to)
        command = Command(words, listed, deadline, COPY_TIMEOUT, unpacking.stream)
        require_success(self.name, self.execute(command))
        unpacking.require_success()

    def interactive(self, words: Sequence[str], *, forward: str = "") -> int:
        """Runs a command, or a shell, on this terminal; returns its exit code. With `forward`,
        `PORT:HOST:PORT` or `PORT:SOCKET`, a port here is forwarded until then, or until Ctrl-C."""
        raise NotImplementedError


def is_here(host: str) -> bool:
    """Returns True if a name stands for this machine: `localhost`, or the machine's own name.

    An address never does. A tunnel may end at 127.0.0.1, and the private address of a cluster's
    host may also be this machine's, in another network.
    """
    return host in ("localhost", os.uname().nodename)


class Here(Connection):
    """This machine, if the command line is used on the cluster: a plain copy is fastest."""

    @property
    def name(self) -> str:
        return "this host"

    def execute(self, command: Command) -> Ended:
        return run_program(command.words, command, self.name)

    def upload(self, folder: Path, to: str, *, deadline: float) -> None:
        from fairway_boot.files import copy_file

        shutil.copytree(folder, to, symlinks=True, copy_function=copy_file, dirs_exist_ok=True)

    def download(self, folder: str, names: Sequence[str], to: Path, *, deadline: float) -> None:
        for name in names:
            if os.path.lexists(Path(folder, name)):
                _renew(Path(folder, name), to / name, to)

    def interactive(self, words: Sequence[str], *, forward: str = "") -> int:
        if forward:
            message = f"{self.name} needs no tunnel"
            raise UserError.of("not-supported", message, f"connect to {forward.partition(':')[2]}")
        return run_on_terminal(list(words) or [os.environ.get("SHELL", "bash")])


def run_program(words: Sequence[str], command: Command, name: str) -> Ended:
    """Runs a program of this machine for a command, which is `words` itself on this host. Raises
    UserError if it takes longer than the command may."""
    try:
        with nullcontext(subprocess.PIPE) if command.into is None else command.into() as out:
            done = subprocess.run(
                words,
                input=command.data,
                stdout=out,
                stderr=subprocess.PIPE,
                timeout=command.timeout,
                check=False,
            )
    except subprocess.TimeoutExpired:
        raise no_answer(name, command.timeout) from None
    except FileNotFoundError:
        message = f"`{words[0]}` is not on this machine's PATH"
        raise UserError.of("missing-tool", message, f"install {words[0]}", exit_code=4) from None
    return Ended(done.returncode, done.stdout or b"", done.stderr.decode(errors="replace"))


def no_answer(name: str, timeout: float) -> UserError:
    """Returns the error for a host that was reached, and has not ended a command in that time."""
    message = f"{name} did not answer within {timeout:g} s"
    hint = "does a file system hang there? try by hand: ls the shared folder"
    return TargetUnavailable.of(NO_ANSWER, message, hint, exit_code=5)


# PR_SET_PDEATHSIG of linux/prctl.h, which survives execve, see prctl(2).
_DIE_WITH_PARENT = """import ctypes, os, signal, sys
parent, *words = sys.argv[1:]
ctypes.CDLL(None).prctl(1, signal.SIGTERM, 0, 0, 0)
if os.getppid() != int(parent):
    sys.exit(128 + signal.SIGTERM)  # it has ended before it could be asked
for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them, and so would the program
    signal.signal(number, signal.SIG_DFL)
try:
    os.execvp(words[0], words)
except OSError as error:
    sys.stderr.write(f"{words[0]}: {error.strerror}\\n")
    sys.exit(127)"""


def die_with_parent(words: Sequence[str]) -> list[str]:
    """Returns the command line of a program that the kernel ends when this process ends, even by
    SIGKILL; on macOS, which has no such signal, the words unchanged."""
    if sys.platform != "linux":
        return list(words)
    # -I and -S: no variable or package of the user changes its behavior, or slows it down.
    return [sys.executable, "-I", "-S", "-c", _DIE_WITH_PARENT, str(os.getpid()), *words]


@contextmanager
def interrupt_on_signals() -> Iterator[None]:
    """Treats signals that would end this process in the block, as from a closed terminal, like
    Ctrl-C; ignored ones stay so, as nohup wants it."""
    before = {each: signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGHUP)}
    held = {each: handler for each, handler in before.items() if handler != signal.SIG_IGN}
    for number in held:
        signal.signal(number, signal.default_int_handler)
    try:
        yield
    finally:
        for number, handler in held.items():
            signal.signal(number, handler)


def run_on_terminal(words: Sequence[str]) -> int:
    """Runs a program on this terminal, which ends with this process; returns its exit code."""
    with interrupt_on_signals():
        process = subprocess.Popen(die_with_parent(words))
        try:
            code = process.wait()
        except KeyboardInterrupt:
            process.terminate()
            process.wait()
            return _INTERRUPTED
    return 128 - code if code < 0 else code


def _renew(source: Path, target: Path, top: Path) -> None:
    """Copies changed files as rsync does: a changed file is replaced by another one, because the
    user may have fetched the old one as a hard link."""
    from fairway_agent.outputs import make_folder, make_room
    from fairway_boot.files import copy_file

    if source.is_dir() and not source.is_symlink():
        make_folder(top, target)
        for each in source.iterdir():
            _renew(each, target / each.name, top)
        return
    if not (source.is_file() or source.is_symlink()):
        return  # a pipe, which rsync skips too
    if os.path.lexists(target):
        old, new = target.lstat(), source.lstat()
        if (old.st_size, old.st_mtime_ns) == (new.st_size, new.st_mtime_ns):
            return
    make_room(top, target)
    copy_file(source, target, follow_symlinks=False)


GARBLED = 2  # the data is not rsync's: another version, or a shell's output
_PIECE = 1 << 16
COPY_TIMEOUT = 86_400.0  # seconds: copies may be slow, and keepalives end one that hangs

UNPACK = 'mkdir -p "$1" && exec tar --no-same-owner -xzf - -C "$1"'
"""Bash command for a host: unpacks the tar file from its input into the folder `$1`. As root, tar
would restore the owners, which a file server with root squashing refuses."""

_MARK = b"\0fairway-files\0"  # comes after the output of a login shell
PACK = (
    'printf "\\0fairway-files\\0"; cd "$1" && '
    'while IFS= read -r -d "" n; do [ ! -e "$n" ] || printf "%s\\0" "$n"; done'
    " | tar -cz --null -T -"
)
"""Bash command for a host: prints a mark, and a tar file of the named files that exist in the
folder `$1`."""


@dataclass
class Unpacking:
    """Unpacks the requested members of a host's tar file, and writes nothing elsewhere."""

    host: str
    names: Sequence[str]
    to: Path
    error: Exception | None = None
    left_out: list[str] = field(default_factory=list)

    @contextmanager
    def stream(self) -> Iterator[int]:
        """Yields a descriptor that takes the tar file, each time from its beginning."""
        self.error, self.left_out = None, []
        reader, writer = os.pipe()
        thread = threading.Thread(target=self._unpack, args=(reader,), daemon=True)
        thread.start()
        try:
            yield writer
        finally:
            os.close(writer)
            thread.join()

    def require_success(self) -> None:
        """Raises UserError for a bad tar file, OSError if it could not be written. Warns of what
        was left out."""
        import tarfile

        if isinstance(self.error, tarfile.TarError | EOFError | zlib.error):
            message = f"{self.host} sent files that cannot be unpacked: {self.error}"
            raise UserError.of("host-failed", message, UNEXPECTED_ANSWER, exit_code=5)
        if self.error is not None:
            raise self.error
        say_left_out(self.left_out)

    def _unpack(self, reader: int) -> None:
        import tarfile

        # Python's own filter too, which exists since 3.11.4.
        guard: dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
        with os.fdopen(reader, "rb") as data:
            try:
                last = b""
                while last != _MARK:
                    if not (byte := data.read(1)):
                        raise EOFError("there is no file")
                    last = (last + byte)[-len(_MARK) :]
                with tarfile.open(fileobj=data, mode="r|gz") as files:
                    files.extractall(self.to, self._wanted(files), **guard)  # noqa: S202 - looked at
            except Exception as error:  # noqa: BLE001 - it is raised by who waits for the thread
                self.error = error
            while data.read(_PIECE):
                pass  # drain the input, so that the sender never blocks

    def _wanted(self, files: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
        from fairway_agent.outputs import make_folder, make_room

        for each in files:
            if _is_wanted(each, self.names):
                # A file that the user fetched may be a hard link to this one: writing changes both.
                make_way = make_folder if each.isdir() else make_room
                each.name = posixpath.normpath(each.name)
                make_way(self.to, self.to / each.name)
                yield each
            else:
                self.left_out.append(each.name)


def _is_wanted(member: tarfile.TarInfo, names: Sequence[str]) -> bool:
    """Returns True if the member is below one of the names, and so is the target of its link."""
    path = posixpath.normpath(member.name)
    if not any(path == name or path.startswith(f"{name}/") for name in names):
        return False
    if member.issym():
        # An absolute link means a file of the host, which does not exist here.
        link = posixpath.normpath(posixpath.join(posixpath.dirname(path), member.linkname))
        return not link.startswith(("/", ".."))
    if member.islnk():
        return not posixpath.normpath(member.linkname).startswith(("/", ".."))
    return member.isfile() or member.isdir()


def of_shell(remote: Connection, deadline: float) -> list[Finding]:
    """Finds a login shell that prints before a command, which rsync would take for its data."""
    said = remote.run(["true"], deadline=deadline).out.decode(errors="replace").strip()
    if not said:
        return []
    message = f"the login shell of {remote.name} prints: {printable(said.splitlines()[0])}"
    hint = (
        f"print on terminals alone: on {remote.name}, in ~/.bashrc (zsh: ~/.zshenv), write before "
        "it: [[ $- == *i* ]] || return"
    )
    return [Finding("noisy-shell", message, hint, severity=Severity.WARNING)]


def require_success(host: str, ended: Ended) -> None:
    """Raises UserError if files could not be copied."""
    if ended.code:
        last = ended.err.strip().splitlines()[-1:] or [f"exit code {ended.code}"]
        message = f"files could not be copied between here and {host}: {last[0]}"
        hint = "is a disk full? check here and there: df -h"
        if ended.code == GARBLED and "protocol" in last[0]:
            hint = "is one of the two versions very old? check here and there: rsync --version"
        raise UserError.of("host-failed", message, hint, exit_code=5)


def last_line(text: str) -> str:
    """Returns the last line that is not empty."""
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")
