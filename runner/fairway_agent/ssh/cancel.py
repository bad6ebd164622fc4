"""Ends a run or one task of it early. Standard library only."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from fairway_agent import control, processes, state_files
from fairway_agent.scratch import LEASE
from fairway_agent.shared.reports import CancelRequest, Done
from fairway_agent.ssh.start import PAUSE, free_lock, is_watched
from fairway_agent.state_files import RunState

if TYPE_CHECKING:
    from pathlib import Path

_GRACE = 10.0  # seconds for what a lost run has left on the main host

REQUEST = CancelRequest


def answer(shared: Path, request: CancelRequest, _: object) -> Done:
    """Tells the run's supervisor to end, or notes of a task that it is to and has it look."""
    folder = shared / "runs" / request.run
    if folder.is_dir():
        if request.task:
            control.cancel(folder, request.submission, request.task)
            _signal(folder, signal.SIGHUP)
        else:
            _cancel(folder, request.submission)
    return Done()


def _cancel(folder: Path, number: int) -> None:
    """Tells the supervisor to end; of a run that was never started or is lost, writes the end."""
    with free_lock(folder) as lock:
        status = state_files.read_run(folder) or RunState()
        if lock is not None and status.goes_on:
            processes.end(processes.sessions_of(folder, LEASE), _GRACE)
            ended = replace(status, state="cancelled", submission=number, ended=time.time())
            state_files.write(folder, ended)
        if lock is not None:
            return
    _signal(folder, signal.SIGUSR1)


def _signal(folder: Path, number: signal.Signals) -> None:
    status = state_files.read_run(folder) or RunState()
    while status.supervisor is None and is_watched(folder):
        time.sleep(PAUSE)
        status = state_files.read_run(folder) or RunState()
    if status.goes_on and status.supervisor is not None and is_watched(folder):
        with suppress(ProcessLookupError):  # unless it ended by itself just now
            os.kill(status.supervisor, number)
