"""Nodes of a plain cluster that a task has, and an attempt of it on its main host.

Started as `attempt RUN_FOLDER SCRIPT` with the contract in its environment, it prepares the nodes,
and runs the task's script. The output of the job's setup goes to the setup's log.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import ClassVar

from fairway_agent import container, job_facts, processes, scratch
from fairway_agent.fanout import launchers, remote_exec
from fairway_agent.prepare import set_up
from fairway_agent.resources import CORES, numbers_of, pin, ports_of
from fairway_agent.sampler import Sampling, sampler
from fairway_agent.state_files import IO_ERROR, NODE
from fairway_agent.task.scheduled import SharedNodes
from fairway_agent.task.task import Loss, Task


def main() -> None:
    run, script = Path(sys.argv[1]), sys.argv[2]
    # The supervisor may be on another host, and cannot know the free ports of this one.
    width = int(os.environ["FAIRWAY_PROCESSES_PER_NODE"])
    try:
        os.environ["FAIRWAY_MAIN_PORT"] = str(launchers.free_port(width, ports_of(os.environ)))
    except OSError as error:
        sys.stderr.write(f"fairway: {error}\n")
        sys.exit(IO_ERROR)
    if cores := os.environ.get(CORES):
        pin(numbers_of(cores))
    hosts = os.environ["FAIRWAY_HOSTS"].split(",")
    argv = [*processes.program("fairway_agent.prepare"), str(run)]
    if code := set_up(run, lambda printed: remote_exec.each_node(argv, hosts, printed)):
        sys.exit(code)
    inside = container.entry(run) if len(hosts) == 1 else []
    folder = Path(os.environ["FAIRWAY_TASK_FOLDER"])
    plan = job_facts.read_shared_plan(run)
    program = [*processes.program(remote_exec.PROGRAM, waits=True), "--each"]
    sampling = Sampling(
        plan.sample_every,
        lambda seconds: [*program, *sampler(run, seconds)],
        os.environ,
        {"FAIRWAY_TASK_FOLDER", *plan.secrets},  # the sampler must not record lost nodes
    )
    processes.ignore_signals(*processes.TASK_SIGNALS)  # the script's programs get these signals too
    code = sampling.wait_for(subprocess.Popen([*inside, "bash", script]))
    # Checks nodes whose connection from a launcher was cut: a launcher that loses a daemon may kill
    # the connection before that is reported, and still exit with 0, as Open MPI 5's mpirun does.
    cut = [path.name for path in folder.glob(f"{remote_exec.REACHED}/*")]
    for host in remote_exec.unreachable(cut):
        remote_exec.report_lost_node(host)
        code = code or remote_exec.LOST  # whatever the launcher says
    sys.exit(128 - code if code < 0 else code)


class SshNodes(SharedNodes):
    """Nodes lent to a run of a cluster; a task learns its own when it starts."""

    MARK: ClassVar = scratch.LEASE
    WAY: ClassVar = "ssh"
    LOSSES_ARE_FAILURES: ClassVar = True

    def mark(self, task: Task) -> str:
        """Returns the attempt's lease, which marks its processes on every node."""
        return scratch.lease(task.run_folder, task.name, task.attempt, task.hosts)

    def prepare(self, task: Task) -> None:
        super().prepare(task)
        shutil.rmtree(task.folder / remote_exec.REACHED, ignore_errors=True)

    def command(self, task: Task, script: Path) -> list[str]:
        """Returns the command that runs the script on the main host, over ssh if necessary."""
        attempt = processes.program("fairway_agent.ssh.attempt", waits=True)
        attempt += [str(task.run_folder), str(script)]
        main = task.hosts[0]
        if main.is_near:
            return attempt
        return [*processes.program(remote_exec.PROGRAM), "--exactly", main.address, *attempt]

    def loss(self, task: Task) -> Loss | None:
        """Returns the nodes that became unreachable; None if there are none."""
        lost = remote_exec.lost_nodes(task.folder)
        if not lost:
            return None
        names = [host.name for host in task.hosts if host.address in lost or host.name in lost]
        words = "node" if len(names) == 1 else "nodes"
        reason = f"{words} {', '.join(names or lost)} could not be reached any more"
        return Loss(NODE, reason, lost)

    def contract(self, task: Task) -> dict[str, str]:
        """Adds the Python of the nodes' programs; the user's own arguments for mpirun stay."""
        found = super().contract(task)
        del found["FAIRWAY_MPI_ARGS"]
        return {**found, "_FAIRWAY_PYTHON": sys.executable or "python3"}

    def reach(self, task: Task, path: str) -> dict[str, str]:
        """Returns the variables that let the launcher reach the nodes. With a container, the script
        of one node runs in it; of several nodes, what the script starts there does."""
        words = container.entry(task.run_folder)
        count = len(task.addresses())
        return launchers.contract(self.WAY, path, nodes=count, inside=words, contained=bool(words))


if __name__ == "__main__":
    main()
