"""Runs a task's commands on a simulated node, one after another, and ends all that they leave.

A program of its own, started as `python -I -S supervisor.py` inside the node's namespaces.
Each line of its input is a command: the first sets the node up, each later one is run and
answered with a line. At the end of its input, which comes also when the simulator dies, it
kills every process that descends from it: it is their subreaper, so a daemon that was put
into the background by its parent's end is still below it.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import signal
import sys
from typing import Any

_PR_SET_CHILD_SUBREAPER = 36
_MS_BIND = 4096
_MS_REC = 16384
_PR_SET_SECUREBITS = 28
_NO_SETUID_FIXUP = 1 << 2
_PR_CAP_AMBIENT = 47
_PR_CAP_AMBIENT_RAISE = 2
_CAP_DAC_READ_SEARCH = 2
_CAPABILITY_VERSION_3 = 0x20080522


def main() -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    woken, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    # An interrupt of the terminal is for the simulator, which then ends this input.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        _set_up(libc, json.loads(sys.stdin.buffer.readline() or b"{}"))
        _serve(woken)
    finally:
        _end_descendants()


def _set_up(libc: ctypes.CDLL, settings: dict[str, Any]) -> None:
    name = settings.get("hostname", "").encode()
    if name and libc.sethostname(name, len(name)):
        raise OSError(ctypes.get_errno(), "sethostname")
    if settings.get("processes") and libc.mount(b"proc", b"/proc", b"proc", 0, None):
        raise OSError(ctypes.get_errno(), "mount /proc")
    for source, target in settings.get("binds", ()):
        if libc.mount(source.encode(), target.encode(), None, _MS_BIND | _MS_REC, None):
            raise OSError(ctypes.get_errno(), f"mount {target}")
    _answer({"ready": True})


def _serve(woken: int) -> None:
    stdin = sys.stdin.fileno()
    pending = b""
    running = 0
    while True:
        ready, _, _ = select.select([stdin, woken], [], [])
        if woken in ready:
            os.read(woken, 512)
            running = _reap(running)
        if stdin in ready:
            chunk = os.read(stdin, 1 << 20)
            if not chunk:
                return
            pending += chunk
            while b"\n" in pending:
                line, pending = pending.split(b"\n", 1)
                running = _start(json.loads(line))


def _reap(running: int) -> int:
    """Collects ended processes, and tells the end of the one that was asked for."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return running
        if pid == 0:
            return running
        if pid == running:
            code = os.waitstatus_to_exitcode(status)
            _answer({"exit": code if code >= 0 else 128 - code})
            running = 0


def _start(command: dict[str, Any]) -> int:
    """Starts a command in a session of its own; answers at once where it cannot be."""
    failed, fail = os.pipe2(os.O_CLOEXEC)
    pid = os.fork()
    if pid == 0:
        _become(command, fail)
    os.close(fail)
    error = os.read(failed, 4)
    os.close(failed)
    if error:
        _answer({"error": int(error)})
        return 0
    return pid


def _become(command: dict[str, Any], fail: int) -> None:
    """In the child: never returns."""
    try:
        os.setsid()
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.set_wakeup_fd(-1)
        # Python ignores these two, and what is ignored stays so across exec.
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
        os.chdir(command["cwd"])
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        for descriptor, file in ((1, command["stdout"]), (2, command["stderr"])):
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
            os.dup2(os.open(file, flags, 0o644), descriptor)
        if command["user"] is not None:
            _drop_rights(command["user"])
        os.environ.clear()
        os.environ.update(command["env"])
        os.execvpe(command["argv"][0], command["argv"], command["env"])  # noqa: S606
    except OSError as error:
        os.write(fail, b"%03d" % (error.errno or 1))
    finally:
        os._exit(127)


def _drop_rights(user: int) -> None:
    """Becomes that user, who may read everything nevertheless: this machine's Python and the
    simulator's folder may lie below a home that is closed to others, and a node's do not."""
    libc = ctypes.CDLL(None, use_errno=True)
    # Otherwise access(2), by which MPI looks for its programs, would answer without that right.
    if libc.prctl(_PR_SET_SECUREBITS, _NO_SETUID_FIXUP, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)
    rights = 1 << _CAP_DAC_READ_SEARCH
    # Effective, permitted and inheritable ones; those beyond the first 32 come behind.
    sets = (ctypes.c_uint32 * 6)(rights, rights, rights)
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    if libc.capset(header, sets):
        raise OSError(ctypes.get_errno(), "capset")
    if libc.prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_RAISE, _CAP_DAC_READ_SEARCH, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")


def _answer(message: dict[str, Any]) -> None:
    os.write(1, json.dumps(message).encode() + b"\n")


def _end_descendants() -> None:
    """Kills until nothing is left: a process may start another while it is looked for."""
    while pids := _descendants():
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        _wait_for_one()


def _wait_for_one() -> None:
    try:
        os.waitpid(-1, 0)
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return


def _descendants() -> list[int]:
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):  # noqa: PTH208 - no pathlib here: it is slow to import
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:  # noqa: PTH123
                    fields = file.read().rpartition(b")")[2].split()
            except OSError:
                continue
            children.setdefault(int(fields[1]), []).append(int(name))
    found: list[int] = []
    todo = [os.getpid()]
    while todo:
        below = children.get(todo.pop(), [])
        found += below
        todo += below
    return found


if __name__ == "__main__":
    main()
