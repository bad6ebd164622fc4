"""The shim of one container: starts it, forwards signals and reports its exit code.

A separate program, started as `python -I -S shim.py` in new mount and process namespaces. The first
line of its input describes the container, each later one is the number of a signal. At the end of
its input, which also comes when the kubelet dies, it kills the container. Its first child is the
container's process 1: as in a real container, this has no default handler for SIGTERM, and the
container ends with it.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import signal
import stat
import sys
from typing import Any

_MS_RDONLY = 1
_MS_NOSUID = 2
_MS_NODEV = 4
_MS_REMOUNT = 32
_MS_BIND = 4096
_MS_REC = 16384
_PROC_FLAGS = _MS_NOSUID | _MS_NODEV | 8

_libc = ctypes.CDLL(None, use_errno=True)


def main() -> None:
    order = json.loads(sys.stdin.buffer.readline())
    woken, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    failed, fail = os.pipe2(os.O_CLOEXEC)
    pid = os.fork()
    if pid == 0:
        _become(order, fail)
    os.close(fail)
    error = os.read(failed, 4096)
    if error:
        os.waitpid(pid, 0)
        _say({"error": error.decode(errors="replace")})
        return
    _say({"pid": pid})
    _attend(pid, woken)


def _attend(pid: int, woken: int) -> None:
    stdin = sys.stdin.fileno()
    pending = b""
    while True:
        ready, _, _ = select.select([stdin, woken], [], [])
        if woken in ready:
            os.read(woken, 512)
            found, status = os.waitpid(pid, os.WNOHANG)
            if found:
                code = os.waitstatus_to_exitcode(status)
                _say({"exit": code if code >= 0 else 128 - code})
                return
        if stdin in ready:
            chunk = os.read(stdin, 4096)
            if not chunk:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
                return
            *lines, pending = (pending + chunk).split(b"\n")
            for line in lines:
                os.kill(pid, int(line))


def _say(message: dict[str, Any]) -> None:
    os.write(1, json.dumps(message).encode() + b"\n")


def _become(order: dict[str, Any], fail: int) -> None:
    """Executes the command in the child, process 1 of the container; never returns."""
    try:
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGINT, signal.SIGCHLD, signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        os.setsid()
        name = order["hostname"].encode()
        if name and _libc.sethostname(name, len(name)):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), "sethostname")
        log = os.open(order["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o640)
        _lay(order["root"], [tuple(each) for each in order["mounts"]])
        os.chroot(order["root"])
        os.makedirs(order["cwd"], exist_ok=True)  # noqa: PTH103 - pathlib is slow to import
        os.chdir(order["cwd"])
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(log, 1)
        os.dup2(log, 2)
        if order["user"] is not None:
            os.setgroups([])
            os.setgid(order["group"])
            os.setuid(order["user"])
        os.execvpe(order["argv"][0], order["argv"], order["env"])  # noqa: S606
    except OSError as error:
        os.write(fail, f"{order['argv'][0]}: {error.strerror} ({error.filename})".encode())
    finally:
        os._exit(127)


def _lay(root: str, mounts: list[tuple[str, str, str]]) -> None:
    """Builds a root from this machine's folders, with `mounts` in it: (kind, source, place). A
    `folder` is only created."""
    _mount("tmpfs", "tmpfs", root, 0, "mode=755")
    ordered = sorted(mounts, key=lambda each: each[2].count("/"))
    _expose("/", root, [place for _, _, place in ordered])
    for kind, source, place in ordered:
        target = root + place
        if kind == "tmpfs":
            _require_folder(target)
            _mount("tmpfs", "tmpfs", target, 0, source)
        elif kind == "folder":
            _require_folder(target)
        elif kind == "proc":
            _require_folder(target)
            _mount("proc", "proc", target, _PROC_FLAGS)
        else:
            if os.path.isdir(source):  # noqa: PTH112
                _require_folder(target)
            elif not os.path.exists(target):  # noqa: PTH110
                _require_folder(os.path.dirname(target))  # noqa: PTH120
                os.close(os.open(target, os.O_CREAT | os.O_WRONLY, 0o644))
            _mount(source, "", target, _MS_BIND | _MS_REC)
            if kind == "read-only":
                _mount("", "", target, _MS_BIND | _MS_REMOUNT | _MS_RDONLY)


def _expose(folder: str, root: str, places: list[str]) -> None:
    """Binds a folder of this machine, except for the `places`. If one of them is missing, recreates
    its folder with the contents bound, so that this machine's own is not written."""
    for name in os.listdir(folder):  # noqa: PTH208
        path = os.path.join(folder, name)  # noqa: PTH118
        target = root + path
        if path in places:
            continue
        if os.path.islink(path):  # noqa: PTH114
            os.symlink(os.readlink(path), target)  # noqa: PTH115, PTH211
        elif os.path.isdir(path):  # noqa: PTH112
            os.makedirs(target, exist_ok=True)  # noqa: PTH103
            below = [each for each in places if each.startswith(path + "/")]
            if any(not _is_there(each, places) for each in below):
                _expose(path, root, places)
            else:
                _mount(path, "", target, _MS_BIND | _MS_REC)
        elif _is_file(path):
            os.close(os.open(target, os.O_CREAT | os.O_WRONLY, 0o644))
            _mount(path, "", target, _MS_BIND)


def _is_file(path: str) -> bool:
    try:
        found = os.stat(path)  # noqa: PTH116
    except OSError:
        return False
    return stat.S_ISREG(found.st_mode) or found.st_rdev != 0


def _is_there(place: str, places: list[str]) -> bool:
    """Returns True if a mount point exists on this machine, or another mount will provide it."""
    hidden = any(place.startswith(other + "/") for other in places)
    return hidden or os.path.exists(place)  # noqa: PTH110


def _require_folder(path: str) -> None:
    os.makedirs(path, exist_ok=True)  # noqa: PTH103


def _mount(source: str, kind: str, target: str, flags: int, data: str = "") -> None:
    if _libc.mount(
        source.encode(), target.encode(), kind.encode() or None, flags, data.encode() or None
    ):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), target)


if __name__ == "__main__":
    main()
