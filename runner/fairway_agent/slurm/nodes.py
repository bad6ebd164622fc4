"""The nodes of a partition: their state, actions on one, resources that a run asks for, and access
as Slurm allows it: through a job of the user's.

    nodes PARTITION NODE shell [WORD…]      a shell, or a command, on the node
    nodes PARTITION NODE relay SOCKET PORT  forwards connections to SOCKET here to PORT there
    nodes PARTITION NODE end PORT           the other end of one connection, on the node

The first two run on the login host. Nodes need not accept ssh. If no job of this user runs on the
node, a shell there is a job of its own, which waits for its turn.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from fairway_agent import processes
from fairway_agent.shared import runs
from fairway_agent.shared.reports import Health, HeldJob, NodeReport, NodesReport, NodesRequest
from fairway_agent.slurm.jobs import HELD
from fairway_boot.files import AgentError
from fairway_boot.slurm import commands

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fairway_agent.resources import ResourceRequest
    from fairway_agent.shared.reports import SubmitRequest

_FIELDS = "%N|%T|%o|%c|%f|%E"

_COMMENT = re.compile(r"^NodeName=(\S+) .* Comment=(\S+)", re.MULTILINE)


def nodes(shared: Path, request: NodesRequest, _: object) -> NodesReport:
    """Returns the nodes of a partition, each with the runs, or the names of other users' jobs,
    there; after the action on one if that is requested."""
    if request.action:
        _act(request.action, request.node)
    partition = ["-p", request.group]
    listed = commands.run(["sinfo", "-h", "-N", *partition, "-o", _FIELDS])
    # sinfo does not list the comments that the scheduler writes.
    machines = dict(_COMMENT.findall(commands.run(["scontrol", "-o", "show", "node"])))
    there: dict[str, list[str]] = {}
    running = commands.run(["squeue", "-h", "-t", "R,CF,CG", *partition, "-o", "%j|%N"])
    for line in running.splitlines():
        job, _, some = line.rpartition("|")
        for name in commands.run(["scontrol", "show", "hostnames", some]).split() if some else ():
            there.setdefault(name, []).append(job)
    found = []
    for line in listed.splitlines():
        name, state, address, cores, features, reason = line.split("|", _FIELDS.count("|"))
        node = NodeReport(
            name,
            state,
            address,
            reason="" if reason == "none" else reason,
            run=", ".join(there.get(name, ())),
            cores=cores,
            features=features,
            machine=machines.get(name, ""),
        )
        found.append(node)
    return NodesReport(tuple(found), _health(shared, partition) if request.health else None)


def _act(action: str, node: str) -> None:
    """Drains, resumes or reboots a node. Raises AgentError if Slurm forbids it, or has no such
    node."""
    user = os.environ.get("USER", "somebody")
    changes = {
        "reboot": ("reboot", "ASAP", "nextstate=RESUME", f"reason={commands.REBOOTED}{user}", node),
        "drain": ("update", f"nodename={node}", "state=drain", f"reason={commands.DRAINED}{user}"),
        "resume": ("update", f"nodename={node}", "state=resume"),
    }
    try:
        commands.run(["scontrol", *changes[action]])
    except commands.CommandFailed as refused:
        said = re.sub(r"^\S+: error: ", "", str(refused).strip().splitlines()[-1])
        hint = "it is for Slurm's operators: try it with sudo on the scheduler"
        if "permission" not in said.lower() and "denied" not in said.lower():
            hint = f"see what it is doing: scontrol show node {node}"
        raise AgentError(
            "refused-action", f"Slurm does not {action} {node}: {said}", hint, 5
        ) from None


def _health(shared: Path, partition: Sequence[str]) -> Health:
    listed = commands.run(["sinfo", "-h", *partition, "-o", "%a"]).split()
    held = commands.run(["squeue", "-h", *partition, "-t", "PD,SPECIAL_EXIT", "-o", "%i|%j|%r"])
    jobs = [HeldJob(*line.split("|", 2)) for line in held.splitlines()]
    return runs.health(
        shared,
        available=listed[0] if listed else "missing",
        held=tuple(job for job in jobs if job.reason.startswith(HELD)),
    )


@dataclass(frozen=True)
class Node:
    """A kind of node: its features, the GPUs that Slurm knows of, its CPUs, its memory in MiB."""

    features: tuple[str, ...] = ()
    gpus: int = 0
    cpus: int = 1
    memory: int = 0


@dataclass(frozen=True)
class Resources:
    """Resources that a run has `asked` for in a partition: one of the `features` of every node (or
    ""), and the number of GPUs of each (0 if Slurm knows of none). `node` is the largest kind of
    node, of which some tasks may request a part."""

    asked: SubmitRequest
    feature: str
    gpus: int
    cpus: int
    node: Node = Node()

    def cpus_of(self, wanted: ResourceRequest) -> int:
        """Returns how many CPUs of a node a task gets, at least one: Slurm gives no job less."""
        return max(1, wanted.cores_of(self.node.cpus, self.node.gpus))

    def node_fraction_of(self, wanted: ResourceRequest | None) -> float | None:
        """Returns the fraction of a node that a task takes; None for entire nodes."""
        if wanted is None:
            return None
        takes = replace(wanted, cores=self.cpus_of(wanted))
        return round(float(takes.node_fraction_of(self.node.cpus, self.node.gpus)), 6)


def partition_resources(request: SubmitRequest) -> Resources:
    """Returns the resources that a run asks for in its partition. Raises AgentError if there is
    none. The target's settings of a node are requested only if Slurm knows of them."""
    name, nodes = request.partition, []
    listed = commands.run(["sinfo", "-h", "-p", name, "-o", "%f|%G|%c|%m"]).split()
    if not listed:
        known = commands.run(["sinfo", "-h", "-o", "%R"]).split()
        hint = f"it has: {', '.join(sorted(set(known)))}" if known else ""
        raise AgentError("no-partition", f"Slurm has no partition `{name}`", hint, 2)
    for line in listed:  # each kind of node
        features, gres, count, memory = line.split("|")
        found = sum(int(some) for some in re.findall(r"gpu(?::[^:,(]+)?:(\d+)", gres))
        of_node = int(count.rstrip("+")), int(memory.rstrip("+"))
        nodes.append(Node(tuple(features.split(",")), found, *of_node))
    largest = max(nodes, key=lambda node: (node.gpus, node.cpus))  # has all that the others have
    # Feature of nodes in Fairway's clusters: nd96isr_h100_v5 for Standard_ND96isr_H100_v5.
    size = request.vm_size.lower().removeprefix("standard_")
    has_feature = size and any(size in node.features for node in nodes)
    gpus, cpus = min(request.gpus, largest.gpus), max(node.cpus for node in nodes)
    return Resources(request, size if has_feature else "", gpus, cpus, largest)


_CHUNK = 1 << 16


def main() -> None:
    partition, node, what, *words = sys.argv[1:]
    if what == "shell":
        terminal = ["--pty"] if os.isatty(0) else []
        words = words or [os.environ.get("SHELL", "bash"), "-l"]
        step = _step(partition, node)
        os.environ.update(commands.environment())
        os.execvp("srun", [*step, *terminal, *words])  # noqa: S606 - it takes this one's place
    elif what == "relay":
        relay(_step(partition, node), [partition, node], Path(words[0]), words[1])
    else:
        end(int(words[0]))


def _step(partition: str, node: str) -> list[str]:
    """Returns the start of the command line that runs one process on the node."""
    words = ["srun", "--nodes=1", "--ntasks=1", f"--nodelist={node}", "--mpi=none", "--quiet"]
    # Otherwise srun delays output without line breaks, such as binary data.
    words.append("--unbuffered")
    jobs = ["squeue", "-h", "--me", "-t", "RUNNING", "-w", node, "-o", "%A"]
    try:
        found = commands.run(jobs).split()
    except commands.CommandFailed as refused:
        sys.exit(f"fairway: {refused}")
    place = [f"--jobid={found[0]}", "--overlap"] if found else [f"--partition={partition}"]
    return [*words, *place]


def relay(step: Sequence[str], address: Sequence[str], path: Path, port: str) -> None:
    """Forwards each connection to the socket at `path` to the port on the node, until this process
    is ended."""
    command = [*step, *processes.program("fairway_agent.slurm.nodes"), *address, "end", port]
    for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: sys.exit(0))  # so that the socket is removed
    ways: list[subprocess.Popen[bytes]] = []
    path.parent.mkdir(mode=0o700)
    try:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(path))
            listener.listen()
            while True:
                connection, _ = listener.accept()
                with connection:
                    # srun uses the connection itself, without a relay.
                    both = connection.fileno()
                    way = subprocess.Popen(
                        command, stdin=both, stdout=both, env=commands.environment()
                    )
                ways = [each for each in ways if each.poll() is None] + [way]
    finally:
        # A waiting server would keep its connection, and with it the step on the node.
        for each in ways:
            each.terminate()
        shutil.rmtree(path.parent, ignore_errors=True)


def end(port: int) -> None:
    """Copies between standard input and output and the port, until the port closes."""

    def send() -> None:
        while data := os.read(0, _CHUNK):
            connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)

    with socket.create_connection(("localhost", port)) as connection:
        threading.Thread(target=send, daemon=True).start()
        while data := connection.recv(_CHUNK):
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
