"""What a node needs before a task starts on it: a folder, staged inputs, the job's setup.

Started as `prepare RUN_FOLDER` on each node of a task. What is there already is left as it is:
inputs that are the same, and a setup that has succeeded here for this run. As `prepare RUN_FOLDER
OPTION COMMAND…` on the task's main host it has every node prepared, and becomes the task's command;
OPTION is what FAIRWAY_EACH_NODE takes to be outside of the job's container, or empty. What the
setup prints goes to the setup's log then. Standard library only.
"""

from __future__ import annotations

import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from fairway_agent import bundle, record, run_files, scratch, staging
from fairway_agent.setup import SETUP_FAILED, has_setup, set_up
from fairway_agent.shared import plans
from fairway_agent.task_state import IO_ERROR
from fairway_boot.faults import Fault

if TYPE_CHECKING:
    from fairway_agent.plan import RunPlan
    from fairway_agent.task_spec import TaskSpec


def main() -> None:
    """The program; see the module's docstring for its arguments. It ends with the setup's code."""
    run, *words = Path(sys.argv[1]), *sys.argv[2:]
    if words:
        option, *command = words
        prepare_all = partial(_prepare_all, run, option)
        if code := set_up(run, prepare_all) if has_setup(run) else prepare_all(None):
            sys.exit(code)
        os.execvp(command[0], command)  # noqa: S606 - it takes this one's place
    _prepare(run)


def _prepare_all(run: Path, option: str, printed: int | None) -> int:
    """Prepares every node; the first exit code that is not 0."""
    words = [*bundle.program("fairway_agent.prepare"), str(run)]
    if os.environ["FAIRWAY_NODES"] != "1":
        # On the nodes themselves, whatever container the job has.
        words = [os.environ["FAIRWAY_EACH_NODE"], *([option] if option else []), *words]
    code = subprocess.call(words, stdout=printed, stderr=printed)
    return 128 - code if code < 0 else code


def _prepare(run: Path) -> None:
    try:
        plan = plans.read(run)
        scratch.prepare(os.environ)
        _stage(plan, run)
        setup = run_files.read_spec(run / "setup.jsonl") if has_setup(run) else None
    except Fault as fault:
        _fail(str(fault))
    except OSError as error:
        _fail(f"{error.filename}: {error.strerror}")
    if setup is not None:
        sys.exit(_set_up(plan, setup, run))


def _fail(why: str) -> None:
    sys.stderr.write(f"fairway: {os.uname().nodename} cannot be prepared: {why}\n")
    sys.exit(IO_ERROR)


def _stage(plan: RunPlan, run: Path) -> None:
    """Copies inputs: to this node, and to the shared folder if it is the task's first."""
    for entry in plan.staged:
        if entry.stage == "scratch" or os.environ.get("FAIRWAY_NODE_RANK", "0") == "0":
            staging.stage(entry, scratch.input_folder(run.parents[1], entry))


def _set_up(plan: RunPlan, setup: TaskSpec, run: Path) -> int:
    """Runs the job's setup unless it has succeeded here; its exit code."""
    done = scratch.root() / "set-up" / run.name
    done.parent.mkdir(exist_ok=True)
    # Other tasks of the run may begin on this node at the same moment.
    with record.alone(done.with_name(f".{run.name}.lock")):
        return 0 if done.exists() else _run_setup(plan, setup, done)


def _run_setup(plan: RunPlan, setup: TaskSpec, done: Path) -> int:
    script = Path(os.environ["FAIRWAY_SCRATCH_DIR"], "setup.sh")
    script.write_text(setup.script, encoding="utf-8")
    code = subprocess.call(["bash", str(script)], cwd=plan.directory)
    if code:
        task = Path(os.environ["FAIRWAY_TASK_FOLDER"])
        record.write_json(task / SETUP_FAILED, {"node": os.uname().nodename, "exit_code": code})
    else:
        done.touch()
    return 128 - code if code < 0 else code


if __name__ == "__main__":
    main()
