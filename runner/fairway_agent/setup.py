"""The job's setup on nodes that a task has for itself, where it runs before a task's script.

What it prints goes to the setup's log, to which tasks on other hosts may add too. Standard
library only.
"""

from __future__ import annotations

import os
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from fairway_agent import record, state_files
from fairway_agent.masking import Mask
from fairway_agent.shared import plans
from fairway_agent.task_state import TaskState

if TYPE_CHECKING:
    from collections.abc import Callable

SETUP_FAILED = "setup-failed"  # in a task's folder: written by the node on which the setup failed


def has_setup(run: Path) -> bool:
    """Whether the job of the run in a folder has one."""
    return (run / "setup.jsonl").exists()


def has_failed(run: Path) -> bool:
    """Whether the setup of the run in a folder has failed."""
    known = state_files.read_task(run / "setup")
    return known is not None and known.state == "failed"


def set_up(run: Path, prepare: Callable[[int], int]) -> int:
    """Prepares a task's nodes, where that may mean the setup; the exit code.

    `prepare` does so, prints to the descriptor that it is given, and returns an exit code.
    """
    folder = run / "setup"
    folder.mkdir(exist_ok=True)
    began = time.time()
    if state_files.read_task(folder) is None:
        state_files.write(folder, _state("running", began))
    with tempfile.TemporaryFile() as printed:
        code = prepare(printed.fileno())
        printed.seek(0)
        text = printed.read()
    failed = (Path(os.environ["FAIRWAY_TASK_FOLDER"]) / SETUP_FAILED).exists()
    if code and not failed:
        os.write(2, text)  # it was something else, which it has said
        return code
    with record.alone(folder / "lock"):
        _append(run, folder, text)
        if failed or not has_failed(run):
            state = _state("failed" if failed else "succeeded", began)
            state = replace(state, ended=time.time(), exit_code=code, timed_out=False)
            state_files.write(folder, state)
    return code


def _state(state: str, began: float) -> TaskState:
    task, attempt = os.environ["FAIRWAY_TASK"], int(os.environ["FAIRWAY_ATTEMPT"])
    return TaskState(state, attempt=0, started=began, task=task, task_attempt=attempt)


def _append(run: Path, folder: Path, text: bytes) -> None:
    mask = Mask(os.environ.get(name, "") for name in plans.read(run).secrets)
    with (folder / "log.txt").open("ab") as log:
        log.write(mask.feed(text) + mask.flush())
