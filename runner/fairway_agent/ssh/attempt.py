"""One attempt of a task, on its main host: prepares its nodes, and runs the task's script.

Started as `attempt RUN_FOLDER SCRIPT` with the contract in its environment. What the job's
setup prints goes to the setup's log. Standard library only.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from fairway_agent import bundle, prepare, record
from fairway_agent.fanout.ssh import channel, each_node, shell
from fairway_agent.masking import Mask
from fairway_agent.ports import free_port
from fairway_agent.supervisor import read_plan


def main() -> None:
    """The program; see the module's docstring for its arguments."""
    run, script = Path(sys.argv[1]), sys.argv[2]
    # The supervisor may be on another host, and does not know which ports are free on this.
    width = int(os.environ["FAIRWAY_PROCESSES_PER_NODE"])
    os.environ["FAIRWAY_MAIN_PORT"] = str(free_port(width))
    hosts = os.environ["FAIRWAY_HOSTS"].split(",")
    argv = [*bundle.program(prepare.__name__), str(run)]
    code = _set_up(run, argv, hosts) if (run / "setup.jsonl").exists() else None
    if code is None:
        code = each_node.run(argv, hosts)
    if code:
        sys.exit(code)
    sys.exit(_run(script, Path(os.environ["FAIRWAY_TASK_FOLDER"])))


def _run(script: str, folder: Path) -> int:
    """The script's exit code; not 0 where a node was lost, whatever a launcher says."""
    for name in ("TERM", "INT", "HUP", "USR1", "USR2"):
        # They are for the script's programs, which get them too.
        signal.signal(getattr(signal, f"SIG{name}"), lambda *_: None)
    code = subprocess.call(["bash", script])
    for host in shell.lost_silently(folder):
        shell.lose(host)
        code = code or channel.LOST
    return 128 - code if code < 0 else code


def _set_up(run: Path, argv: list[str], hosts: list[str]) -> int:
    """Prepares the nodes where that may mean the job's setup; the exit code."""
    folder = run / "setup"
    folder.mkdir(exist_ok=True)
    began = time.time()
    if not record.read_json(folder / "state.json"):
        record.write_json(folder / "state.json", _state("running", began))
    with tempfile.TemporaryFile() as printed:
        code = each_node.run(argv, hosts, printed.fileno())
        printed.seek(0)
        _append(run, folder, printed.read())
    failed = prepare.failed_setup(Path(os.environ["FAIRWAY_TASK_FOLDER"]))
    if not failed and code:
        return code  # it was something else, which it has said
    state = "failed" if failed else "succeeded"
    facts = {"ended": time.time(), "exit_code": code, "timed_out": False}
    record.write_json(folder / "state.json", {**_state(state, began), **facts})
    return code


def _state(state: str, began: float) -> dict[str, object]:
    task = os.environ["FAIRWAY_TASK"], int(os.environ["FAIRWAY_ATTEMPT"])
    facts = {"attempt": 0, "started": began, "task": task[0], "task_attempt": task[1]}
    return {"state": state, **facts}


def _append(run: Path, folder: Path, text: bytes) -> None:
    """Adds to the setup's log, where tasks on other hosts may do so too."""
    plan = read_plan(run, retry=False)
    mask = Mask(os.environ.get(name, "") for name in plan["secrets"])
    with record.alone(folder / "lock"), (folder / "log.txt").open("ab") as log:
        log.write(mask.feed(text) + mask.flush())


if __name__ == "__main__":
    main()
