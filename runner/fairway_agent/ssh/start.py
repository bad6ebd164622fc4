"""Starts the supervisor of a run, once for each submission. Standard library only.

A run's `lock` is held by its supervisor for as long as it lives, and before that by the
program that starts it. The supervisor's first state says which submission it runs.
"""

from __future__ import annotations

import os
import subprocess
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from fairway_agent import processes, state_files
from fairway_agent.shared.receive import copy_code
from fairway_agent.shared.reports import Done, SubmitRequest
from fairway_boot import files
from fairway_boot.files import Fault

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_SUPERVISE = "fairway_agent.ssh.supervise"  # which takes long to import
PAUSE = 0.02  # seconds until a supervisor that is about to say who it is has done so

# What ssh says of the connection by which the run was started, and what is the run's alone.
_OUTER = ("SSH_", "FAIRWAY_RUN", "FAIRWAY_TASK", "SLURM_")

REQUEST = SubmitRequest


def answer(shared: Path, request: SubmitRequest, _: object) -> Done:
    """Starts the submission, unless that is done."""
    folder, number = shared / "runs" / request.run, request.submission
    while True:
        with free_lock(folder) as lock:
            known = state_files.read_run(folder)
            if known is not None and known.submission >= number:
                return Done()
            if lock is not None:
                if not (folder / "code").is_dir():
                    copy_code(shared, request.code, folder)
                _supervise(folder, lock, retry=number > 0)
                return Done()
        # Somebody is starting it: the same submission, whose connection broke. Or the
        # supervisor of the last one has not quite ended.
        time.sleep(PAUSE)


def is_watched(folder: Path) -> bool:
    """True if another process holds the run's lock."""
    with free_lock(folder) as lock:
        return lock is None


def _supervise(folder: Path, lock: int, *, retry: bool) -> None:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_OUTER)}
    started, ready = os.pipe()
    words = [str(folder), str(lock), str(ready)] + ["retry"] * retry
    try:
        with (folder / "supervisor.log").open("wb") as log:
            subprocess.Popen(
                [*processes.program(_SUPERVISE), *words],
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


@contextmanager
def free_lock(folder: Path) -> Iterator[int | None]:
    """The run's lock, held; None where somebody else has it."""
    lock = files.try_lock(folder / "lock")
    try:
        yield lock
    finally:
        if lock is not None:
            os.close(lock)
