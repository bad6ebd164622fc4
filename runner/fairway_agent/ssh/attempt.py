"""One attempt of a task, on its main host: prepares its nodes, and runs the task's script.

Started as `attempt RUN_FOLDER SCRIPT` with the contract in its environment. What the job's
setup prints goes to the setup's log. Standard library only.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from fairway_agent import container, job_facts, processes
from fairway_agent.fanout import each_node, remote_exec, remote_exec_server
from fairway_agent.fanout.launchers import free_port
from fairway_agent.figures.sampler import Sampling, sampler
from fairway_agent.prepare import has_setup, set_up
from fairway_agent.resources import CORES, numbers_of, pin, ports_of

_PREPARE = "fairway_agent.prepare"


def main() -> None:
    """The program; see the module's docstring for its arguments."""
    run, script = Path(sys.argv[1]), sys.argv[2]
    # The supervisor may be on another host, and does not know which ports are free on this.
    width = int(os.environ["FAIRWAY_PROCESSES_PER_NODE"])
    os.environ["FAIRWAY_MAIN_PORT"] = str(free_port(width, ports_of(os.environ)))
    if cores := os.environ.get(CORES):
        pin(numbers_of(cores))
    hosts = os.environ["FAIRWAY_HOSTS"].split(",")
    argv = [*processes.program(_PREPARE), str(run)]
    if has_setup(run):
        code = set_up(run, lambda printed: each_node.run(argv, hosts, printed))
    else:
        code = each_node.run(argv, hosts)
    if code:
        sys.exit(code)
    inside = container.entry(run) if len(hosts) == 1 else []
    folder = Path(os.environ["FAIRWAY_TASK_FOLDER"])
    sys.exit(_run([*inside, "bash", script], folder, _sampling(run)))


def _sampling(run: Path) -> Sampling:
    """Returns the sampler of the task's nodes. If the sampler loses a node, the task has not lost
    it."""
    plan = job_facts.read_shared_plan(run)
    program = processes.program(each_node.__name__, waits=True)
    return Sampling(
        plan.sample_every,
        lambda seconds: [*program, *sampler(run, seconds)],
        lambda: os.environ,
        {"FAIRWAY_TASK_FOLDER", *plan.secrets},
    )


def _run(command: list[str], folder: Path, sampling: Sampling) -> int:
    """The exit code of the task's script; not 0 where a node was lost, whatever a launcher says."""
    processes.outlive(*processes.TASK_SIGNALS)  # for the script's programs, which get them too
    code = sampling.wait_for(subprocess.Popen(command))
    for host in remote_exec.lost_silently(folder):
        remote_exec.lose(host)
        code = code or remote_exec_server.LOST
    return 128 - code if code < 0 else code


if __name__ == "__main__":
    main()
