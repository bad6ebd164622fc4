"""Worker processes for people's own input in programs with threads: patterns, templates, jobs. In a
thread nothing can stop these, and they use up the memory of all.

`main` carries out calls one by one until its input ends: however the program that started it ends,
even during a call. A call that takes too long ends the process.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import pickle
import resource
import select
import signal
import struct
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from fairway_agent import process_limits
from fairway_agent.process_limits import memory_limit, used_memory
from fairway_core.findings import UserError
from fairway_runner.engines import outage

T = TypeVar("T")

CPU = 300.0  # seconds of processor time per call: a sweep has up to 100,000 tasks
MEMORY = 1 << 30  # bytes of memory per call
_LARGEST = 32 << 20  # bytes of a result
_GROWN = 128 << 20  # bytes by which a process may grow between two calls
_KEPT = 2  # idle processes
_HEAD = struct.Struct("!?Q")

_idle: list[_Process] = []
_busy: set[_Process] = set()
_lock = threading.Lock()


def call(function: Callable[..., T], *arguments: object) -> T:
    """Calls a module's function in another process like ours. Raises OverLimit for too much."""
    limits = (CPU, MEMORY, process_limits.CPU_LIMIT, outage.Choice.seconds, outage.Choice.offered)
    order = (os.getcwd(), dict(os.environ), limits, function, arguments)  # noqa: PTH109 - as it is
    with _lock:
        process = _idle.pop() if _idle else _Process()
        if not process.is_alive:
            process.close()
            process = _Process()
        _busy.add(process)
    is_kept = False
    try:
        answer, is_small = process.ask(pickle.dumps(order))
        with _lock:
            is_kept = is_small and len(_idle) < _KEPT
            _idle.extend([process] if is_kept else [])
    finally:
        with _lock:
            _busy.discard(process)
        if not is_kept:
            process.close()
    has_returned, found = pickle.loads(answer)  # noqa: S301 - it ran our own functions
    if has_returned:
        return found  # type: ignore[no-any-return]
    raise found


def look_at_job(function: Callable[..., T], *arguments: object) -> T:
    """Checks a job in another process. Raises UserError if that takes too many resources."""
    try:
        return call(function, *arguments)
    except process_limits.OverLimit:
        raise UserError.of(
            "heavy-job",
            f"the job was stopped while it was looked at: that took more than {CPU:g} s of "
            f"processor time or {MEMORY >> 20:,} MiB of memory",
            "split it into several: with fewer steps, tasks or templates",
        ) from None


def remove_limits() -> None:
    """Removes the limits from this process and its children, once all checks are done."""
    if _usual is not None:
        signal.setitimer(signal.ITIMER_PROF, 0)
        resource.setrlimit(resource.RLIMIT_DATA, _usual)


def close() -> None:
    """Ends the processes, and their calls."""
    with _lock:
        for process in _busy:
            process.kill()
        while _idle:
            _idle.pop().close()


atexit.register(close)


class _Process:
    """One process, for one call at a time."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", f"from {__name__} import main; main()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # protects it from Ctrl-C
        )

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def ask(self, order: bytes) -> tuple[bytes, bool]:
        """Returns a call's answer, and True if the process stays small. Raises OverLimit."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(_HEAD.pack(True, len(order)) + order)
            self._process.stdin.flush()
            is_small, size = _HEAD.unpack(self._process.stdout.read(_HEAD.size))
            answer = self._process.stdout.read(size)
        except (BrokenPipeError, struct.error):
            raise process_limits.OverLimit from None
        if len(answer) < size:
            raise process_limits.OverLimit
        return answer, is_small

    def kill(self) -> None:
        """Ends it during a call, whose caller closes it."""
        self._process.kill()

    def close(self) -> None:
        """Ends it, and frees its resources."""
        with suppress(BrokenPipeError), self._process as process:
            process.kill()


_usual: tuple[int, int] | None = None
"""The memory limit that this process was started with, if `call` started it."""


def main() -> None:
    """Carries out each call of the input."""
    global _usual
    _usual = resource.getrlimit(resource.RLIMIT_DATA)
    orders, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    # The output and input of a call's code must not mix with these.
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    signal.signal(signal.SIGIO, signal.SIG_DFL)
    fcntl.fcntl(orders, fcntl.F_SETOWN, os.getpid())
    usual = fcntl.fcntl(orders, fcntl.F_GETFL)
    at_first = used_memory() or 0
    while head := orders.read(_HEAD.size):
        order = orders.read(_HEAD.unpack(head)[1])
        folder, environment, limits, function, arguments = pickle.loads(order)  # noqa: S301 - ours
        os.chdir(folder)
        if dict(os.environ) != environment:
            os.environ.clear()
            os.environ.update(environment)
        process_limits.CPU_LIMIT = limits[2]
        outage.choose(limits[3], offered=limits[4])
        # Between orders only the end of the input arrives, and its signal ends this process.
        fcntl.fcntl(orders, fcntl.F_SETFL, usual | os.O_ASYNC)
        if select.select([orders], [], [], 0)[0]:
            return
        signal.setitimer(signal.ITIMER_PROF, limits[0])
        try:
            with memory_limit(limits[1]):
                answer = pickle.dumps(_answered(function, arguments))
        except MemoryError:
            answer = b""
        signal.setitimer(signal.ITIMER_PROF, 0)
        fcntl.fcntl(orders, fcntl.F_SETFL, usual)
        if not 0 < len(answer) <= _LARGEST:
            answer = pickle.dumps((False, process_limits.OverLimit()))
        answers.write(_HEAD.pack((used_memory() or 0) - at_first < _GROWN, len(answer)) + answer)
        answers.flush()


def _answered(function: Callable[..., Any], arguments: Sequence[Any]) -> tuple[bool, Any]:
    try:
        return True, function(*arguments)
    except (UserError, OSError, process_limits.OverLimit) as error:
        return False, error
    except MemoryError:
        raise
    except Exception:  # noqa: BLE001 - it is raised where it was called
        return False, RuntimeError(traceback.format_exc())
