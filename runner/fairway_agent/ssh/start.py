"""Starts the supervisor of a run, once for each submission, and ends it. Standard library only.

A run's `lock` is held by its supervisor for as long as it lives, and before that by whoever
starts it. The supervisor's first state says which submission it runs.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import IO, TYPE_CHECKING

from fairway_agent import bundle, processes, record, state_files
from fairway_agent.faults import Fault
from fairway_agent.run_state import RunState
from fairway_agent.scratch import LEASE
from fairway_agent.shared.receive import copy_code
from fairway_agent.shared.reports import Done
from fairway_agent.ssh import supervise
from fairway_agent.ssh.reports import StartRequest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_GRACE = 10.0  # seconds for what a lost run has left on the main host
_PAUSE = 0.02  # seconds until a supervisor that is about to say who it is has done so

# What ssh says of the connection by which the run was started, and what is the run's alone.
_OUTER = ("SSH_", "FAIRWAY_RUN", "FAIRWAY_TASK", "SLURM_")

REQUEST = StartRequest


def answer(
    shared: Path,
    request: StartRequest,
    payload: IO[bytes],  # noqa: ARG001
) -> Done:
    """Does what is asked with `run`: with `cancel` its end, else the start of its submission."""
    folder, number = shared / "runs" / request.run, request.submission
    if request.cancel:
        _cancel(folder, number)
        return Done()
    while True:
        with _free_lock(folder) as lock:
            if _submitted(folder) >= number:
                return Done()
            if lock is not None:
                if not (folder / "code").is_dir():
                    copy_code(shared, request.code, folder)
                _supervise(folder, lock, retry=number > 0)
                return Done()
        # Somebody is starting it: the same submission, whose connection broke. Or the
        # supervisor of the last one has not quite ended.
        time.sleep(_PAUSE)


def is_watched(folder: Path) -> bool:
    """Whether somebody holds the run's lock."""
    with _free_lock(folder) as lock:
        return lock is None


def _submitted(folder: Path) -> int:
    known = state_files.read_run(folder)
    return -1 if known is None else known.submission


def _supervise(folder: Path, lock: int, *, retry: bool) -> None:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_OUTER)}
    started, ready = os.pipe()
    words = [str(folder), str(lock), str(ready)] + ["retry"] * retry
    try:
        with (folder / "supervisor.log").open("wb") as log:
            subprocess.Popen(
                [*bundle.program(supervise.__name__), *words],
                cwd=folder,
                env=kept,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=(lock, ready),
                start_new_session=True,
            )
    finally:
        os.close(ready)
    with os.fdopen(started, "rb") as said:
        if not said.read():
            text = (folder / "supervisor.log").read_text(errors="replace").strip()
            last = text.splitlines()[-1] if text else "it gave no reason"
            hint = f"see all that it says, on the host: cat {folder}/supervisor.log"
            raise Fault("not-started", f"the run's supervisor did not start: {last}", hint)


def _cancel(folder: Path, number: int) -> None:
    """Tells the supervisor to end; of a run that was never started or is lost, writes the end."""
    if not folder.is_dir():
        return
    with _free_lock(folder) as lock:
        status = state_files.read_run(folder) or RunState()
        if lock is not None and status.goes_on:
            processes.end(processes.sessions_of(folder, LEASE), _GRACE)
            ended = replace(status, state="cancelled", submission=number, ended=time.time())
            state_files.write(folder, ended)
        if lock is not None:
            return
    _signal(folder, signal.SIGTERM)


def wake(folder: Path) -> None:
    """Has the run's supervisor look at what is in its folder now."""
    if folder.is_dir():
        _signal(folder, signal.SIGHUP)


def _signal(folder: Path, number: signal.Signals) -> None:
    status = state_files.read_run(folder) or RunState()
    while status.supervisor is None and is_watched(folder):
        time.sleep(_PAUSE)
        status = state_files.read_run(folder) or RunState()
    if status.goes_on and status.supervisor is not None and is_watched(folder):
        with suppress(ProcessLookupError):  # unless it ended by itself just now
            os.kill(status.supervisor, number)


@contextmanager
def _free_lock(folder: Path) -> Iterator[int | None]:
    """The run's lock, held; None where somebody else has it."""
    lock = record.try_lock(folder / "lock")
    try:
        yield lock
    finally:
        if lock is not None:
            os.close(lock)
