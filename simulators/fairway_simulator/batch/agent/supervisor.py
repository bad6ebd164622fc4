"""The supervisor of a task's commands on a node: runs them in turn, and ends all that they leave.

A separate program, started as `python -I -S supervisor.py` inside the node's namespaces. Each line
of its input is a command: the first sets the node up, each later one is run and answered with a
line. At the end of its input, which also comes when the simulator dies, it kills all its
descendants. As their subreaper it also finds daemons whose parent has exited to put them into the
background.
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
    # A terminal's interrupt is meant for the simulator, which then closes this input.
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
    """Reaps ended processes and reports the command's end. Returns its pid, 0 once it has ended."""
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
    """Starts a command in its own session. Reports an error at once and returns 0 if that fails."""
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
    """Executes the command in the child; never returns."""
    try:
        os.setsid()
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.set_wakeup_fd(-1)
        # Python ignores these two signals, and ignored signals stay ignored across exec.
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
    """Switches to that user but keeps the right to read everything: unlike a node's, this machine's
    Python and the simulator's folder may lie below a home that is closed to others."""
    libc = ctypes.CDLL(None, use_errno=True)
    # Otherwise access(2), with which MPI looks for its programs, would ignore that right.
    if libc.prctl(_PR_SET_SECUREBITS, _NO_SETUID_FIXUP, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)
    rights = 1 << _CAP_DAC_READ_SEARCH
    # Effective, permitted and inheritable; capabilities beyond the first 32 follow.
    sets = (ctypes.c_uint32 * 6)(rights, rights, rights)
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    if libc.capset(header, sets):
        raise OSError(ctypes.get_errno(), "capset")
    if libc.prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_RAISE, _CAP_DAC_READ_SEARCH, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")


def _answer(message: dict[str, Any]) -> None:
    os.write(1, json.dumps(message).encode() + b"\n")


def _end_descendants() -> None:
    """Kills until nothing is left, as a process may start another during the search."""
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
    for name in os.listdir("/proc"):  # noqa: PTH208 - pathlib is slow to import
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
