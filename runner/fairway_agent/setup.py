"""The job's setup on nodes that a task has for itself, where it runs before a task's script.

What it prints goes to the setup's log, to which tasks on other hosts may add too. Standard
library only.
"""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from fairway_agent import record
from fairway_agent.masking import Mask
from fairway_agent.shared import plans

if TYPE_CHECKING:
    from collections.abc import Callable

SETUP_FAILED = "setup-failed"  # in a task's folder: written by the node on which the setup failed


def has_setup(run: Path) -> bool:
    """Whether the job of the run in a folder has one."""
    return (run / "setup.jsonl").exists()


def set_up(run: Path, prepare: Callable[[int], int]) -> int:
    """Prepares a task's nodes, where that may mean the setup; the exit code.

    `prepare` does so, prints to the descriptor that it is given, and returns an exit code.
    """
    folder = run / "setup"
    folder.mkdir(exist_ok=True)
    began = time.time()
    if not record.read_json(folder / "state.json"):
        record.write_json(folder / "state.json", _state("running", began))
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
        known = record.read_json(folder / "state.json").get("state")
        if failed or known != "failed":
            facts = {"ended": time.time(), "exit_code": code, "timed_out": False}
            state = _state("failed" if failed else "succeeded", began)
            record.write_json(folder / "state.json", {**state, **facts})
    return code


def _state(state: str, began: float) -> dict[str, object]:
    task, attempt = os.environ["FAIRWAY_TASK"], int(os.environ["FAIRWAY_ATTEMPT"])
    facts = {"attempt": 0, "started": began, "task": task, "task_attempt": attempt}
    return {"state": state, **facts}


def _append(run: Path, folder: Path, text: bytes) -> None:
    mask = Mask(os.environ.get(name, "") for name in plans.read(run).secrets)
    with (folder / "log.txt").open("ab") as log:
        log.write(mask.feed(text) + mask.flush())
