"""The nodes of an allocation of Slurm's, whose first one runs the task's attempts."""

from __future__ import annotations

import os
import subprocess
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar

from fairway_agent import processes, scratch
from fairway_agent.fanout import launchers
from fairway_agent.figures.sampler import sampler
from fairway_agent.nodes.shared import SharedNodes, is_prepared, scratch_folder
from fairway_agent.slurm import container, leftovers
from fairway_boot.slurm import commands

if TYPE_CHECKING:
    import signal
    from pathlib import Path

    from fairway_agent.task.task import Task

_LEFTOVERS, _PREPARE = "fairway_agent.slurm.leftovers", "fairway_agent.prepare"

_STRAY_GRACE = 2.0  # seconds for what an attempt has left on another node
_STEP_PATIENCE = 120.0  # seconds for srun to end what is left, of which a node may never answer

# One process a node, beside whatever else the job runs there.
STEP = ("srun", "--overlap", "--ntasks-per-node=1", "--mpi=none", "--input=none", "--quiet")
# What the job was asked for, and would be asked of each step of its own again.
_OF_JOB = ("SLURM_NTASKS", "SLURM_NPROCS", "SLURM_NTASKS_PER_NODE", "SLURM_TASKS_PER_NODE")
_VISIBLE = ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")


class SlurmNodes(SharedNodes):
    """Nodes that Slurm has chosen. `entry` is how the job's container is entered, if it has one,
    and `signalling` are the steps that send the other nodes a signal."""

    WAY: ClassVar = "srun"

    def __init__(self) -> None:
        self.entry: container.Entry | None = None
        self.signalling: list[subprocess.Popen[bytes]] = []

    def prepare(self, task: Task) -> None:
        """Also ends what jobs that were killed have left there, where Slurm does not."""
        shared = task.run_folder.parents[1]
        if not leftovers.are_contained(os.environ):
            leftovers.end_leftovers(shared, os.environ)
            if words := _on_others(task):
                self._step(task, [*words, *processes.program(_LEFTOVERS), "before", str(shared)])
        super().prepare(task)
        folders = (str(shared), str(scratch.root()))
        self.entry = container.entry_of(task.run_folder, task.plan.directory, folders)

    def signal(self, task: Task, number: signal.Signals) -> None:
        """On every node: whatever launcher has started them, and in whichever session."""
        leftovers.signal_task(task.plan.run, task.name, number)
        if words := _on_others(task):
            words += [*processes.program(_LEFTOVERS), "signal"]
            step = [*words, task.plan.run, task.name, task.plan.signal]
            quiet = subprocess.DEVNULL
            self.signalling.append(subprocess.Popen(step, env=_for_step(), stderr=quiet))

    def sampler_words(self, task: Task, seconds: float) -> list[str]:
        """On each node; a step of several nodes ends with srun."""
        count = len(task.hosts)
        step = [*STEP, f"--nodes={count}", f"--ntasks={count}"] if count > 1 else []
        return [*step, *sampler(task.run_folder, seconds)]

    def environment_outside(self, task: Task) -> dict[str, str]:
        return _for_step()

    def clean(self, task: Task, code: int) -> None:
        """Ends it before the attempt's end is known, with the steps that a launcher left."""
        for step in self.signalling:
            try:
                step.wait(_STEP_PATIENCE)
            except subprocess.TimeoutExpired:
                step.kill()
                step.wait()
        self.signalling.clear()
        if code and len(task.hosts) > 1:
            _end_steps()
        if words := _on_others(task):
            # What was told to end has had its grace.
            grace = _STRAY_GRACE if task.kill_at is None else 0.0
            names = [task.plan.run, task.name, str(grace), str(scratch_folder(task))]
            self._step(task, [*words, *processes.program(_LEFTOVERS), "leave", *names])

    def _step(self, task: Task, words: list[str]) -> None:
        """Runs what ends something on the other nodes, and goes on where one does not answer."""
        quiet = subprocess.DEVNULL
        try:
            subprocess.call(
                words, env=_for_step(), stdin=quiet, stderr=quiet, timeout=_STEP_PATIENCE
            )
        except subprocess.TimeoutExpired:
            names = ", ".join(host.name for host in task.hosts[1:])
            line = f"fairway: what was left on {names} may go on: no answer in time"
            self.append_log_line(task, line)

    def facts(self, task: Task) -> dict[str, Any]:
        requeues = int(os.environ.get("SLURM_RESTART_COUNT", "0"))
        return {**super().facts(task), "job": job_id(), "requeues": requeues}

    def command(self, task: Task, script: Path) -> list[str]:
        """Enters the container by `entry` alone, and has the nodes prepared where they need it."""
        command = ["bash", str(script)]
        if self.entry is not None and len(task.hosts) == 1:
            command = self.entry.alone(command)
        elif self.entry is not None:
            self.entry.write(task.folder)
        if is_prepared(task):
            folder = scratch_folder(task)  # on every node; what others left there goes
            scratch.make(folder, scratch.Others.KEPT if task.share else scratch.Others.GONE)
            if words := _on_others(task):
                make = 'rm -rf -- "$1" && mkdir -p -m 700 -- "$1"'
                words += ["sh", "-c", make, "sh", str(folder)]
                subprocess.call(words, env=_for_step(), stdin=subprocess.DEVNULL)
            return command
        return [*processes.program(_PREPARE), str(task.run_folder), "--outside", *command]

    def contract(self, task: Task) -> dict[str, str]:
        """With a share of its node also what Slurm says of its GPUs; and its launcher finds as many
        tasks of Slurm's as it has processes: as a job it is one, with all the CPUs."""
        found = super().contract(task)
        if task.share is None:
            return found
        names = _VISIBLE if task.share.gpus else ()
        found |= {name: os.environ[name] for name in names if name in os.environ}
        width = str(task.spec.processes_per_node)
        found |= dict.fromkeys(_OF_JOB, width)
        cpus = int(os.environ.get("SLURM_CPUS_PER_TASK", "1"))
        return found | {"SLURM_CPUS_PER_TASK": str(max(1, cpus // int(width)))}

    def reach(self, task: Task, path: str) -> dict[str, str]:
        """Within a container there is no srun, and no other node."""
        is_contained = self.entry is not None
        return launchers.contract(self.WAY, path, nodes=len(task.hosts), contained=is_contained)


def job_id() -> str:
    """As Slurm's commands take it: `12`, or `12_3` for an element of an array."""
    array = os.environ.get("SLURM_ARRAY_JOB_ID")
    if array:
        return f"{array}_{os.environ['SLURM_ARRAY_TASK_ID']}"
    return os.environ["SLURM_JOB_ID"]


def _on_others(task: Task) -> list[str]:
    """The command that runs a program once on each node but the main one; empty for one node."""
    names = [host.name for host in task.hosts[1:]]
    return [*STEP, f"--nodes={len(names)}", f"--nodelist={','.join(names)}"] if names else []


def _for_step() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name not in _OF_JOB}


def _end_steps() -> None:
    """Ends what a launcher that was killed has left: the next attempt must not meet it."""
    with suppress(commands.Refused):
        listed = commands.run(["squeue", "-h", "-s", "-j", os.environ["SLURM_JOB_ID"], "-o", "%i"])
        left = [step for step in listed.split() if step.rpartition(".")[2].isdecimal()]
        if left:
            commands.run(["scancel", "--signal=KILL", *left])
