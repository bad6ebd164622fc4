"""One attempt of a task, on its main host: prepares its nodes, and becomes the task's command.

Started as `attempt RUN_FOLDER COMMAND…` with the contract in its environment. What the job's
setup prints goes to the setup's log. Standard library only.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from fairway_agent import bundle, record
from fairway_agent.masking import Mask
from fairway_agent.shared import plans
from fairway_agent.slurm import prepare
from fairway_agent.ssh.task import SETUP_FAILED


def main() -> None:
    """The program; see the module's docstring for its arguments."""
    run, command = Path(sys.argv[1]), sys.argv[2:]
    code = _set_up(run) if (run / "setup.jsonl").exists() else _prepare(run, None)
    if code:
        sys.exit(code)
    os.execvp(command[0], command)  # noqa: S606 - it takes this one's place


def _prepare(run: Path, printed: int | None) -> int:
    """Prepares every node; the first exit code that is not 0."""
    words = [*bundle.program(prepare.__name__), str(run)]
    if os.environ["FAIRWAY_NODES"] != "1":
        # On the nodes themselves, whatever container the job has.
        words = [os.environ["FAIRWAY_EACH_NODE"], "--outside", *words]
    code = subprocess.call(words, stdout=printed, stderr=printed)
    return 128 - code if code < 0 else code


def _set_up(run: Path) -> int:
    """Prepares the nodes where that may mean the job's setup; the exit code."""
    folder = run / "setup"
    folder.mkdir(exist_ok=True)
    began = time.time()
    failure = Path(os.environ["FAIRWAY_TASK_FOLDER"]) / SETUP_FAILED
    if not record.read_json(folder / "state.json"):
        record.write_json(folder / "state.json", _state("running", began))
    with tempfile.TemporaryFile() as printed:
        code = _prepare(run, printed.fileno())
        printed.seek(0)
        text = printed.read()
    failed = failure.exists()
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
    return {"state": state, "attempt": 0, "started": began, "task": os.environ["FAIRWAY_TASK"]}


def _append(run: Path, folder: Path, text: bytes) -> None:
    """Adds to the setup's log."""
    mask = Mask(os.environ.get(name, "") for name in plans.read(run)["secrets"])
    with (folder / "log.txt").open("ab") as log:
        log.write(mask.feed(text) + mask.flush())


if __name__ == "__main__":
    main()
