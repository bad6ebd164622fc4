"""A limit on the processor time that something of the user's may take: a pattern, a template."""

from __future__ import annotations

import signal
import sys
import threading
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from collections.abc import Iterator
    from sys import UnraisableHookArgs
    from types import FrameType

CPU_LIMIT = 10.0  # seconds of this process's own time, so that a busy machine changes nothing


class OverLimit(Exception):
    """It took more processor time than it may."""


_is_prepared = False
"""Whether the signal is answered already: the main thread alone asks and says so."""


@contextmanager
def cpu_limit() -> Iterator[None]:
    """Raises OverLimit from within when CPU_LIMIT is over, and once more each time that it is
    over again where something swallows that. Signals reach the main thread alone: in another
    thread there is no limit."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    with nullcontext() if _is_prepared else prepared():
        signal.setitimer(signal.ITIMER_VIRTUAL, CPU_LIMIT, CPU_LIMIT)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)


@contextmanager
def prepared() -> Iterator[None]:
    """Within it limits cost little: a sweep renders templates for each of its tasks."""
    global _is_prepared
    if _is_prepared or threading.current_thread() is not threading.main_thread():
        yield
        return
    before, report = signal.signal(signal.SIGVTALRM, _end), sys.unraisablehook

    def report_others(error: UnraisableHookArgs) -> None:
        # Python prints what a finalizer raises, and goes on: the next signal ends it.
        if not isinstance(error.exc_value, OverLimit):
            report(error)

    sys.unraisablehook, _is_prepared = report_others, True
    try:
        yield
    finally:
        _is_prepared = False
        sys.unraisablehook = report
        signal.signal(signal.SIGVTALRM, signal.SIG_DFL if before is None else before)


def _end(number: int, frame: FrameType | None) -> NoReturn:
    del number, frame
    raise OverLimit
