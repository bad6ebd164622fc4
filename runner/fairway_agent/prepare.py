"""Prepares a node for a task: a folder, staged inputs, the job's setup.

Started as `prepare RUN_FOLDER` on each node of a task. Anything that already exists is left as it
is: unchanged inputs, and a setup that has succeeded here for this run. As `prepare RUN_FOLDER
OPTION COMMAND…` on the task's main host it has every node prepared, and then becomes the task's
command; OPTION is the option that makes FAIRWAY_EACH_NODE run outside of the job's container, or
empty. The setup's output then goes to the setup's log.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from fairway_agent import control, job_facts, processes, scratch, state_files
from fairway_agent.state_files import IO_ERROR, TaskState
from fairway_agent.task_logs import Mask
from fairway_boot import files
from fairway_boot.files import AgentError

if TYPE_CHECKING:
    from collections.abc import Callable

    from fairway_agent.spec import RunPlan, TaskSpec

SETUP_FAILED = "setup-failed"  # in a task's folder: written by the node whose setup failed


def has_setup(run: Path) -> bool:
    """Returns True if the job of the run in a folder has a setup."""
    return (run / "setup.jsonl").exists()


def has_failed(run: Path) -> bool:
    """Returns True if the setup of the run in a folder has failed."""
    known = state_files.read_task(run / "setup")
    return known is not None and known.state == "failed"


def set_up(run: Path, prepare: Callable[[int | None], int]) -> int:
    """Prepares a task's nodes, which may include the setup, and returns the exit code. `prepare`
    does the work, prints to the descriptor that it gets, and returns an exit code."""
    if not has_setup(run):
        return prepare(None)
    folder = run / "setup"
    folder.mkdir(exist_ok=True)
    state = TaskState("running", attempt=0, started=time.time())
    if state_files.read_task(folder) is None:
        state_files.write(folder, state)
    with tempfile.TemporaryFile() as printed:
        code = prepare(printed.fileno())
        printed.seek(0)
        text = printed.read()
    failed = (Path(os.environ["FAIRWAY_TASK_FOLDER"]) / SETUP_FAILED).exists()
    if code and not failed:
        os.write(2, text)  # another error, which was already printed
        return code
    with files.hold_lock(folder / "lock"):
        mask = Mask(os.environ.get(name, "") for name in job_facts.read_plan(run).secrets)
        with (folder / "log.txt").open("ab") as log:
            log.write(mask.feed(text) + mask.flush())
        if failed or not has_failed(run):
            state = replace(state, state="failed" if failed else "succeeded", ended=time.time())
            state_files.write(folder, replace(state, exit_code=code, timed_out=False))
    return code


def main() -> None:
    run, *words = Path(sys.argv[1]), *sys.argv[2:]
    if words:
        option, *command = words
        if code := set_up(run, partial(_prepare_all, run, option)):
            sys.exit(code)
        os.execvp(command[0], command)  # noqa: S606 - it takes this one's place
    try:
        plan = job_facts.read_shared_plan(run)
        scratch.prepare(os.environ)
        if any(entry.stage == "scratch" for entry in plan.staged):
            scratch.own_folder(scratch.root() / "inputs")
        for entry in plan.staged:  # to this node, or from the first node to the shared folder
            if entry.stage == "scratch" or os.environ.get("FAIRWAY_NODE_RANK", "0") == "0":
                from fairway_agent import access  # slow to import

                access.stage(entry, scratch.input_folder(run.parents[1], entry))
        setup = job_facts.read_spec(run / "setup.jsonl") if has_setup(run) else None
    except (AgentError, OSError) as error:
        why = error.said if isinstance(error, AgentError) else f"{error.filename}: {error.strerror}"
        sys.stderr.write(f"fairway: {os.uname().nodename} cannot be prepared: {why}\n")
        sys.exit(IO_ERROR)
    if setup is not None:
        sys.exit(_set_up(plan, setup, run))


def _prepare_all(run: Path, option: str, printed: int | None) -> int:
    """Prepares every node and returns the first exit code that is not 0."""
    words = [*processes.program("fairway_agent.prepare"), str(run)]
    if os.environ["FAIRWAY_NODES"] != "1":
        # On the nodes themselves, even if the job has a container.
        words = [os.environ["FAIRWAY_EACH_NODE"], *([option] if option else []), *words]
    code = subprocess.call(words, stdout=printed, stderr=printed)
    return 128 - code if code < 0 else code


def _set_up(plan: RunPlan, setup: TaskSpec, run: Path) -> int:
    """Runs the job's setup unless it has succeeded here, and returns its exit code."""
    name = f"{run.name}-{control.digest(run)}"
    done = scratch.own_folder(scratch.root() / "set-up") / name
    # Other tasks of the run may start on this node at the same time.
    with files.hold_lock(done.with_name(f".{name}.lock")):
        if done.exists():
            return 0
        script = Path(os.environ["FAIRWAY_SCRATCH_DIR"], "setup.sh")
        script.write_text(setup.script, encoding="utf-8")
        code = subprocess.call(["bash", str(script)], cwd=plan.directory)
        if code:
            task = Path(os.environ["FAIRWAY_TASK_FOLDER"])
            files.write_json(task / SETUP_FAILED, {"node": os.uname().nodename, "exit_code": code})
        else:
            done.touch()
        return 128 - code if code < 0 else code


if __name__ == "__main__":
    main()
