"""Processes of Fairway and of tasks: starting, waiting for, signalling and ending them."""

from __future__ import annotations

import os
import selectors
import signal
import socket
import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import fairway_agent

WAITS = "fairway-waits"
"""Marks the command line of a program that waits for its own programs: these get a task's signals
at the same time, or from it."""

PACKAGE = Path(fairway_agent.__file__).parent
"""Folder of the package, with the programs that are not Python."""
BUNDLE = PACKAGE.parent
"""Folder of the bundle, which Python can run."""
BYTECODE = ["-X", f"pycache_prefix={sys.pycache_prefix}"] if sys.pycache_prefix else []
"""Options of Python for the folder from which this process takes its bytecode: beside a bundle may
lie some that came with a project."""


def program(module: str, *, waits: bool = False) -> list[str]:
    """Returns the command line that runs a module of the bundle, or of the installed package if
    this is no bundle. `waits` marks the program with WAITS."""
    mark = ["-X", WAITS] if waits else []
    if not (BUNDLE / "__main__.py").exists():
        # -P: a json.py in the current folder is the job's, and must not replace Python's own. Older
        # versions of Python lack it; with these only tests run an installed package.
        safe = ["-P"] if sys.version_info >= (3, 11) else []
        return [sys.executable, *mark, *safe, "-m", module]
    return [sys.executable or "python3", *mark, *BYTECODE, "-s", str(BUNDLE), module]


# These kill their ranks within half a second of a SIGTERM, so the ranks get it first and the entire
# grace. (Measured with Open MPI 5: 0.25 s to a SIGKILL.)
_LAUNCHERS = {"mpirun", "prterun", "prte", "prted", "orted"}
_LAUNCHERS |= {"mpiexec", "mpiexec.hydra", "hydra_pmi_proxy"}
# Connections to other nodes, which end with the programs there.
_LAUNCHERS |= {"ssh", "srun"}
# Clients of containers, which would pass the signal only to the container's first process.
_LAUNCHERS |= {"docker", "podman", "conmon", "catatonit"}

# A shell that waits for a program would die of the signal at once, and its launcher would then kill
# the program while it saves. A shell with a trap gets the signal like any other program.
_SHELLS = {"bash", "dash", "sh", "ksh", "zsh", "busybox"}

NESTED = {"SHLVL": "2"}
"""Environment of shells that run a command: at levels 1 and 2, a bash that was started by sshd, or
reads from a socket (as a launcher may set up), first reads bashrc."""

_PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h


def members(sessions: Collection[int]) -> set[int]:
    """Returns the ids of the sessions' live processes that this user may end."""
    found = set()
    for name, text in _each("stat") if sessions else ():
        fields = text.rpartition(b")")[2].split(None, 4)
        if fields and int(fields[3]) in sessions and fields[0] != b"Z":
            found.add(int(name))
    return found if os.geteuid() == 0 else set(filter(_may_be_ended, found))


def _may_be_ended(pid: int) -> bool:
    """Returns False for a process that a task has started as another user, with sudo."""
    try:
        os.kill(pid, 0)
    except PermissionError:
        return False
    except ProcessLookupError:
        pass
    return True


def _is_signalled_first(pid: int, number: signal.Signals) -> bool:
    """Returns True if the process does the job's work, rather than being a launcher that waits for
    one; a shell counts if it has a trap for the signal."""
    process = Path("/proc", str(pid))
    try:
        # Not the kernel's name of the process, which for a script is not its shell's.
        program = (process / "exe").readlink().name.removesuffix(" (deleted)")
        status = (process / "status").read_text(encoding="utf-8", errors="replace")
        words = (process / "cmdline").read_bytes().split(b"\0")
    except OSError:
        return False  # it has ended
    if program in _LAUNCHERS or WAITS.encode() in words:
        return False
    if program in _SHELLS:
        caught = int(status.partition("SigCgt:")[2].split()[0], 16)
        return bool(caught >> (number - 1) & 1)
    return True


def sessions_of(folder: Path, mark: str) -> set[int]:
    """Returns the sessions with live processes of the run in that folder, found by FAIRWAY_RUN. The
    variable `mark` excludes those of a run with the same ID in another project."""
    run, real = f"FAIRWAY_RUN={folder.name}", os.path.realpath(folder)

    def is_own(variables: Collection[str]) -> bool:
        marks = [each for each in variables if each.startswith(f"{mark}=")]
        return run in variables and all(real in _folders(each) for each in marks)

    return sessions_of_all(pid for pid, variables in environments() if is_own(variables))


def _folders(mark: str) -> Iterator[str]:
    """Yields the folders that a mark may begin with: a folder's own name may contain a `#` too."""
    parts = mark.partition("=")[2].split("#")
    for end in range(1, len(parts) + 1):
        yield os.path.realpath("#".join(parts[:end]))


def sessions_with(variable: str) -> set[int]:
    """Returns the sessions of processes that were started with a variable, as `NAME=value`."""
    meant = os.fsencode(variable)
    return sessions_of_all(int(pid) for pid, text in _each("environ") if meant in text.split(b"\0"))


def sessions_where(is_meant: Callable[[str], bool]) -> set[int]:
    """Returns the sessions of processes with a variable, as `NAME=value`, that `is_meant`."""
    return sessions_of_all(pid for pid, names in environments() if any(map(is_meant, names)))


def sessions_of_all(pids: Iterable[int]) -> set[int]:
    """Returns the sessions of processes, except of those that have ended meanwhile."""
    found = set()
    for pid in pids:
        with suppress(ProcessLookupError):
            found.add(os.getsid(pid))
    return found


def environments() -> Iterator[tuple[int, list[str]]]:
    """Yields the environment of each of the user's processes, as `NAME=value`."""
    for name, text in _each("environ"):
        yield int(name), text.decode(errors="replace").split("\0")


def find_processes(*words: str) -> list[int]:
    """Returns the processes whose command lines contain these arguments in a row."""
    part = os.fsencode("\0".join(("", *words, "")))
    return [int(name) for name, text in _each("cmdline") if part in text]


def _each(file: str) -> Iterator[tuple[str, bytes]]:
    """Yields the id and the content of that /proc file of each process, if this user may
    read it and the process still runs."""
    # Plain descriptors for speed: this reads every process after every task.
    for name in filter(str.isdecimal, os.listdir("/proc")):  # noqa: PTH208 - as above
        with suppress(OSError):
            descriptor = os.open(f"/proc/{name}/{file}", os.O_RDONLY)
            try:
                parts = list(iter(lambda: os.read(descriptor, 1 << 16), b""))  # noqa: B023 - at once
            finally:
                os.close(descriptor)
            yield name, b"".join(parts)


PATIENCE = 30.0
"""Seconds for killed processes to end: in a GPU's driver or on a file system that does not answer,
some cannot at once, or never."""


def end(sessions: Collection[int], grace: float) -> set[int]:
    """Ends every process of the sessions. The program's own processes get SIGTERM and `grace`
    seconds, in which a launcher ends by itself once its ranks have ended; everything that is left
    then gets SIGKILL. Returns those that are left even so."""
    if not members(sessions):
        return set()
    signal_sessions(sessions, signal.SIGTERM)
    deadline = time.monotonic() + grace
    while members(sessions) and time.monotonic() < deadline:
        time.sleep(0.02)
    return kill(sessions)


STRAY_GRACE = 2.0  # seconds for what a program that has ended left behind


def end_all(find: Callable[[], set[int]], grace: float = STRAY_GRACE) -> set[int]:
    """Ends every process of the sessions that `find` returns, as `end` does."""
    left = end(find(), grace)
    # Repeated for programs that have just started their own session.
    while not left and (more := [each for each in find() if members({each})]):
        left = kill(more)
    return left


def adopt_orphans() -> None:
    """Makes this process the parent of whatever its descendants leave behind."""
    import ctypes  # slower to import than everything else here, and rarely needed

    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)  # if it fails, fewer strays are found


def end_orphans(own: Collection[int]) -> None:
    """Ends all children of this process except its `own`, with their sessions."""
    end_all(lambda: sessions_of_all(reap(own)) - {os.getsid(0)})
    reap(own)


def reap(own: Collection[int]) -> set[int]:
    """Reaps this process's ended children, except its `own`, and returns the ids of live ones."""
    try:
        text = Path(f"/proc/self/task/{os.getpid()}/children").read_text(encoding="ascii")
    except OSError:  # a kernel without CONFIG_PROC_CHILDREN
        return set()
    left = set(map(int, text.split())) - set(own)
    return {pid for pid in left if os.waitpid(pid, os.WNOHANG) == (0, 0)}


def signal_sessions(sessions: Collection[int], number: signal.Signals) -> None:
    """Sends the signal to the sessions' processes; see `signal_processes`."""
    signal_processes(members(sessions), number)


def signal_processes(pids: Collection[int], number: signal.Signals) -> None:
    """Sends the signal to the processes that do the job's work, or to all if none does. Parents
    come before their children: a shell with a trap would otherwise see the end of its child, and
    could end before it gets the signal itself."""
    first = [pid for pid in pids if _is_signalled_first(pid, number)] or pids
    _send(sorted(first, key=lambda pid: (start_ticks(pid), pid)), number)


def start_ticks(pid: int) -> int:
    """Returns when a process was started, in ticks since boot; 0 if it has ended."""
    try:
        text = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return 0
    return int(text.rpartition(b")")[2].split()[19])


def kill(sessions: Collection[int]) -> set[int]:
    """Kills every process of the sessions, and waits until none is left, or for PATIENCE; returns
    those that are left."""
    deadline = time.monotonic() + PATIENCE
    while alive := members(sessions):
        _send(alive, signal.SIGKILL)
        if time.monotonic() >= deadline:
            break
        time.sleep(0.01)
    return alive


def _send(pids: Iterable[int], number: signal.Signals) -> None:
    for pid in pids:
        # It may have ended, and its ID be another user's process now.
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


class Guard:
    """A second process that ends a task's processes if their supervisor is killed. It learns of
    sessions through a pipe, and of the supervisor's end when the pipe closes."""

    def __init__(self, others: Iterable[int], grace: float, is_mark: Callable[[str], bool]) -> None:
        """Forks the guard. `others` are descriptors that it must not keep open; `is_mark`
        recognises the variables of all processes to end."""
        reading, self._writing = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                os.setsid()
                for descriptor in (*others, self._writing):
                    os.close(descriptor)
                for number in TASK_SIGNALS:
                    signal.signal(number, signal.SIG_IGN)
                sessions: set[int] = set()
                with os.fdopen(reading, encoding="ascii") as lines:
                    for line in lines:
                        change = sessions.add if line[0] == "+" else sessions.discard
                        change(int(line[1:]))
                end_all(lambda: sessions | sessions_where(is_mark), grace)
            finally:
                os._exit(0)
        os.close(reading)

    def watch(self, session: int) -> None:
        """Adds a session to those that end if the supervisor dies."""
        self._say(f"+{session}\n")

    def forget(self, session: int) -> None:
        self._say(f"-{session}\n")

    def _say(self, line: str) -> None:
        with suppress(BrokenPipeError):  # it was killed: the tasks go on without it
            os.write(self._writing, line.encode())


# The kernel's maximum is 24.8 days (epoll_wait: milliseconds in an int). Callers check again after
# every wait, so waking up early costs nothing.
_LONGEST = 3600.0

# Signals for a task's programs.
TASK_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)


def signal_wakeups(*numbers: signal.Signals) -> tuple[socket.socket, socket.socket]:
    """Returns two sockets: the first becomes readable when one of these signals arrives, even if it
    gets a handler later, and yields its number; threads write to the second to that effect."""
    wakeup, writer = socket.socketpair()
    writer.setblocking(False)
    signal.set_wakeup_fd(writer.dup().detach(), warn_on_full_buffer=False)
    ignore_signals(*numbers)
    return wakeup, writer


def ignore_signals(*numbers: signal.Signals) -> None:
    """Ignores these signals here, but not in the programs that are started."""
    for number in numbers:
        signal.signal(number, lambda *_: None)


def handle_term(handler: Callable[..., object]) -> None:
    """Sets the handler of SIGTERM and unblocks the signal, which `main` blocks at the start of a
    pod's programs: one that came before is handled now."""
    signal.signal(signal.SIGTERM, handler)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})


def wait(wakeup: socket.socket, deadline: float | None) -> None:
    """Waits until `wakeup` is readable, and drains it, or until the `deadline` on the monotonic
    clock, at most an hour; callers check what has happened."""
    left = _LONGEST if deadline is None else deadline - time.monotonic()
    with selectors.DefaultSelector() as selector:
        selector.register(wakeup, selectors.EVENT_READ)
        if selector.select(max(0.0, min(left, _LONGEST))):
            wakeup.recv(4096)
