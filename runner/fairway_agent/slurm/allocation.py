"""The nodes of a Slurm allocation, whose first one runs the task's attempts, and processes on a
node where Slurm tracks these by their parents: a daemon that has left its session is in no step,
outlives its job, and keeps using the GPUs.

    allocation before SHARED            ends what killed jobs have left, before a task's script
    allocation signal MARK SIGNAL       signals a task's processes on one of its other nodes
    allocation make FOLDER              creates the task's FOLDER on one of its other nodes
    allocation leave MARK GRACE FOLDER  ends its processes, and removes the FOLDER on that node

SHARED is the folder of all runs, and MARK the task's, which all its processes carry. If a job has a
cgroup, Slurm itself ends all of its processes.

A container is entered with Pyxis, a plugin of Slurm's, with Apptainer, or with another runtime of
the node. A task of one node runs in it completely; on several nodes the launcher's script stays
outside, and what it starts once per node runs in it.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from fairway_agent import job_facts, processes, scratch
from fairway_agent.container import (
    IMAGE_FILES,
    apptainer,
    find_runtime,
    for_enroot,
    missing,
    require_memory,
)
from fairway_agent.container import entry as any_entry
from fairway_agent.fanout import launchers
from fairway_agent.sampler import Sampling, sampler
from fairway_agent.slurm.jobs import ENDED
from fairway_agent.task.scheduled import SharedNodes, is_prepared, scratch_folder
from fairway_boot.files import AgentError
from fairway_boot.slurm import commands

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fairway_agent.task.task import Task

# Files: srun's options for programs/fairway-each-node, and fairway-on-node's command prefix.
STEP_OPTIONS, PREFIX = "step-options", "container"


@dataclass(frozen=True)
class Entry:
    """Way into a container: `step` holds options of srun, `prefix` what precedes the command."""

    step: tuple[str, ...] = ()
    prefix: tuple[str, ...] = ()

    def alone(self, command: Sequence[str]) -> list[str]:
        """Returns the command line of a task of one node."""
        if not self.step:
            return [*self.prefix, *command]
        srun = ("srun", "--overlap", "--nodes=1", "--ntasks=1", "--mpi=none", "--input=none")
        return [*srun, "--quiet", *self.step, *command]

    def write(self, folder: Path) -> None:
        """Writes the entry where the programs of a task of several nodes look for it."""
        for name, words in ((STEP_OPTIONS, self.step), (PREFIX, self.prefix)):
            (folder / name).write_bytes(b"".join(word.encode() + b"\0" for word in words))


def entry_of(run: Path, directory: str, folders: Sequence[str]) -> Entry | None:
    """Returns the way into the container of a run's job on this node; None if the job has none.
    `directory` is where its commands start, `folders` are mounted. Raises AgentError if this node
    cannot run it."""
    container = job_facts.of_job(run).container
    if container is None:
        return None
    mounts = [*job_facts.of_target(run).mounts.values(), *folders]
    seen = [path for path in dict.fromkeys(mounts) if Path(path).is_dir()]
    image_files = [path for path in IMAGE_FILES if Path(path).exists()]
    options = ""
    with suppress(commands.CommandFailed):
        options = commands.run(["srun", "--help"])
    if "--container-image" in options:  # the plugin pyxis adds it
        require_memory(container)
        bound = ",".join([f"{path}:{path}" for path in seen] + [f"{p}:{p}:ro" for p in image_files])
        words = [f"--container-image={for_enroot(container.image)}", f"--container-mounts={bound}"]
        return Entry(step=(*words, f"--container-workdir={directory}", *container.options))
    program = shutil.which("apptainer") or shutil.which("singularity")
    if program is None:
        if find_runtime() is None:
            here, hint = missing(os.environ.get("SLURMD_NODENAME", "this node"))
            raise AgentError("no-containers", f"{here}, nor Slurm's Pyxis", hint, 4)
        return Entry(prefix=tuple(any_entry(run)))
    require_memory(container)
    binds = [*seen, *(f"{path}:{path}:ro" for path in image_files)]
    return Entry(prefix=tuple(apptainer(program, container, binds, directory)))


_STRAY_GRACE = 2.0  # seconds for processes that an attempt left on another node
_STEP_PATIENCE = 120.0  # seconds for srun to end these, since a node may never answer

# One process per node, beside whatever else the job runs there.
STEP = ("srun", "--overlap", "--ntasks-per-node=1", "--mpi=none", "--input=none", "--quiet")
# Settings of the job that would also apply to each of its steps.
_OF_JOB = ("SLURM_NTASKS", "SLURM_NPROCS", "SLURM_NTASKS_PER_NODE", "SLURM_TASKS_PER_NODE")


class SlurmNodes(SharedNodes):
    """Nodes that Slurm has chosen. `entry` is the way into the job's container, if it has one, and
    `signalling` are the steps that send a signal to the other nodes."""

    WAY: ClassVar = "srun"

    def __init__(self) -> None:
        self.entry: Entry | None = None
        self.signalling: list[subprocess.Popen[bytes]] = []

    def prepare(self, task: Task) -> None:
        """Also ends what killed jobs have left there, unless Slurm does so."""
        shared = task.run_folder.parents[1]
        if not are_contained(os.environ):
            end_stale_processes(shared, os.environ)
            self._step(task, "before", str(shared))
        super().prepare(task)
        folders = (str(shared), str(scratch.root()))
        self.entry = entry_of(task.run_folder, task.plan.directory, folders)

    def signal(self, task: Task, number: signal.Signals) -> None:
        """Signals the task's processes on every node, whichever launcher and session they belong
        to."""
        signal_task(self.mark(task), number)
        if step := _on_other_nodes(task, "signal", self.mark(task), task.plan.signal):
            quiet = subprocess.DEVNULL
            self.signalling.append(subprocess.Popen(step, env=_for_step(), stderr=quiet))

    def sampling(self, task: Task, environment: dict[str, str]) -> Sampling:
        """Returns the sampling of each node; a step of several nodes ends with srun."""
        plan, count = task.plan, len(task.hosts)
        step = [*STEP, f"--nodes={count}", f"--ntasks={count}"] if count > 1 else []
        words = partial(sampler, task.run_folder)
        return Sampling(plan.sample_every, lambda s: [*step, *words(s)], _for_step(), plan.secrets)

    def clean(self, task: Task, code: int) -> None:
        """Waits until signals are sent, and ends what a launcher left on the other nodes, before
        the attempt's end is recorded."""
        for step in self.signalling:
            try:
                step.wait(_STEP_PATIENCE)
            except subprocess.TimeoutExpired:
                step.kill()
                step.wait()
        self.signalling.clear()
        if code and len(task.hosts) > 1:
            # Steps that a killed launcher left running would interfere with the next attempt.
            steps = ["squeue", "-h", "-s", "-j", os.environ["SLURM_JOB_ID"], "-o", "%i"]
            with suppress(commands.CommandFailed):
                listed = commands.run(steps).split()
                if left := [step for step in listed if step.rpartition(".")[2].isdecimal()]:
                    commands.run(["scancel", "--signal=KILL", *left])
        # Processes that were told to end have had their grace.
        grace = _STRAY_GRACE if task.kill_at is None else 0.0
        folder = str(scratch_folder(task))
        self._step(task, "leave", self.mark(task), str(grace), folder)

    def _step(self, task: Task, *words: str) -> None:
        """Runs a step that ends something on the other nodes, if there are any, and continues if
        one does not answer."""
        null, step = subprocess.DEVNULL, _on_other_nodes(task, *words)
        if not step:
            return
        try:
            subprocess.call(step, env=_for_step(), stdin=null, stderr=null, timeout=_STEP_PATIENCE)
        except subprocess.TimeoutExpired:
            names = ", ".join(host.name for host in task.hosts[1:])
            line = f"fairway: what was left on {names} may go on: no answer in time"
            self.append_log_line(task, line)

    def facts(self, task: Task) -> dict[str, Any]:
        requeues = int(os.environ.get("SLURM_RESTART_COUNT", "0"))
        return {**super().facts(task), "job": job_id(), "requeues": requeues}

    def command(self, task: Task, script: Path) -> list[str]:
        """Returns the command line, which enters the container with `entry` alone, and has the
        nodes prepared if they need it."""
        command = ["bash", str(script)]
        if self.entry is not None and len(task.hosts) == 1:
            command = self.entry.alone(command)
        elif self.entry is not None:
            self.entry.write(task.folder)
        if is_prepared(task):
            folder = scratch_folder(task)  # on every node, without leftovers
            scratch.make(folder, keep=task.share is not None)
            if step := _on_other_nodes(task, "make", str(folder)):
                code = subprocess.call(step, env=_for_step(), stdin=subprocess.DEVNULL)
                if code:  # the highest of all nodes
                    nodes = ", ".join(host.name for host in task.hosts[1:])
                    message = f"{folder} cannot be made on each of {nodes} (exit code {code})"
                    raise AgentError("no-scratch", message, scratch.FOREIGN_HINT, 4)
            return command
        prepare = processes.program("fairway_agent.prepare")
        return [*prepare, str(task.run_folder), "--outside", *command]

    def contract(self, task: Task) -> dict[str, str]:
        """Adds Slurm's variables for the GPUs of a share, and as many Slurm tasks as the launcher
        has processes: the job itself is one task with all the CPUs."""
        found = super().contract(task)
        if task.share is None:
            return found
        if task.share.gpus:
            visible = ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")
            found |= {name: os.environ[name] for name in visible if name in os.environ}
        width = str(task.spec.processes_per_node)
        found |= dict.fromkeys(_OF_JOB, width)
        cpus = int(os.environ.get("SLURM_CPUS_PER_TASK", "1"))
        return found | {"SLURM_CPUS_PER_TASK": str(max(1, cpus // int(width)))}

    def reach(self, task: Task, path: str) -> dict[str, str]:
        """Returns the variables that let the launcher reach the nodes: a container has no srun, and
        no other node."""
        is_contained = self.entry is not None
        return launchers.contract(self.WAY, path, nodes=len(task.hosts), contained=is_contained)


def job_id() -> str:
    """Returns the job's id in the form of Slurm's commands: `12`, or `12_3` for an array's
    element."""
    if array := os.environ.get("SLURM_ARRAY_JOB_ID"):
        return f"{array}_{os.environ['SLURM_ARRAY_TASK_ID']}"
    return os.environ["SLURM_JOB_ID"]


def _on_other_nodes(task: Task, *words: str) -> list[str]:
    """Returns the command line that runs this program with these words once on each node but the
    main one; empty for one node."""
    names = [host.name for host in task.hosts[1:]]
    nodes = [f"--nodes={len(names)}", f"--nodelist={','.join(names)}"]
    own = processes.program("fairway_agent.slurm.allocation")
    return [*STEP, *nodes, *own, *words] if names else []


def _for_step() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name not in _OF_JOB}


_GRACE = 5.0  # seconds for leftover processes to save their state
_RUN, _JOB, _TIMES = "FAIRWAY_SHARED_DIR", "SLURM_JOB_ID", "SLURM_RESTART_COUNT"


def are_contained(environment: Mapping[str, str], root: Path = Path("/")) -> bool:
    """Returns True if Slurm has a cgroup for the job, in which it ends every process."""
    try:
        lines = (root / "proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:
        return False
    return any(f"job_{environment.get(_JOB)}" in line.split("/") for line in lines)


def end_stale_processes(shared: Path, environment: Mapping[str, str]) -> None:
    """Ends this user's leftover processes here of jobs that Slurm no longer has, or has
    restarted."""
    own = (environment.get(_JOB, ""), environment.get(_TIMES, "0"))
    found: dict[int, tuple[str, str]] = {}  # each with its job's ID and restart count
    for pid, variables in processes.environments():
        known = dict(each.partition("=")[::2] for each in variables)
        # A launcher copies this variable to other nodes too.
        folder, job = known.get(_RUN, ""), known.get(_JOB, "")
        key = (job, known.get(_TIMES, "0"))
        if job and key != own and Path(folder).is_relative_to(shared / "runs"):
            found[pid] = key
    if not found:
        return
    active: set[str] = set()
    if any(job != own[0] for job, _ in found.values()):
        # By default squeue omits suspended jobs, and those of hidden partitions.
        every = ["squeue", "-h", "-a", "-t", "all", "-u", str(os.getuid()), "-o", "%A|%T"]
        try:
            listed = (line.partition("|") for line in commands.run(every).splitlines())
            active = {job for job, _, state in listed if state not in ENDED}
        except (commands.CommandFailed, AgentError):
            active = {job for job, _ in found.values()} - {own[0]}
    left = {pid for pid, key in found.items() if key[0] == own[0] or key[0] not in active}
    processes.end(processes.sessions_of_all(left) - {os.getsid(0)}, _GRACE)


def signal_task(mark: str, number: signal.Signals) -> None:
    """Signals the processes that do the job's work; launchers end by themselves after these."""
    processes.signal_processes(processes_of(mark), number)


def processes_of(mark: str) -> set[int]:
    """Returns the processes here of the task with this mark: srun passes it on, so it does not
    matter which launcher started them, and they may have sessions of their own."""
    variable = f"{SlurmNodes.MARK}={mark}"
    return {pid for pid, variables in processes.environments() if variable in variables}


def end_all(mark: str, grace: float) -> None:
    """Ends every process on this node that carries the task's mark."""
    if processes_of(mark):
        signal_task(mark, signal.SIGTERM)
    began = time.monotonic()
    last = began + grace + processes.PATIENCE
    while (alive := processes_of(mark)) and time.monotonic() < last:
        if time.monotonic() >= began + grace:
            for pid in alive:
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)


def main() -> None:
    what, *words = sys.argv[1:]
    if what == "before":
        end_stale_processes(Path(words[0]), os.environ)
    elif what == "signal":
        signal_task(words[0], signal.Signals[f"SIG{words[1]}"])
    elif what == "make":
        try:
            scratch.make(Path(words[0]), keep=True)
        except AgentError as fault:
            sys.exit(f"fairway: {fault.said}")
    else:
        end_all(words[0], float(words[1]))
        scratch.remove(Path(words[2]))


if __name__ == "__main__":
    main()
