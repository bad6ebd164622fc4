"""A task in an allocation of Slurm's: its nodes, and the contract there. Standard library only."""

from __future__ import annotations

import os
import subprocess
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

from fairway_agent import bundle, scratch
from fairway_agent.fanout import launchers
from fairway_agent.figures.sampling import sampler
from fairway_agent.shared.task import ScheduledTask
from fairway_agent.slurm import container, leftovers
from fairway_agent.slurm.others import signal_task
from fairway_boot.slurm import commands

if TYPE_CHECKING:
    import signal
    from pathlib import Path

    from fairway_agent.task_state import TaskState

_SLURM, _PREPARE = "fairway_agent.slurm", "fairway_agent.prepare"

_STRAY_GRACE = 2.0  # seconds for what an attempt has left on another node
_STEP_PATIENCE = 120.0  # seconds for srun to end what is left, of which a node may never answer

# One process a node, beside whatever else the job runs there.
STEP = ("srun", "--overlap", "--ntasks-per-node=1", "--mpi=none", "--input=none", "--quiet")


@dataclass
class SlurmTask(ScheduledTask):
    """A task whose nodes Slurm has chosen; the first of them, on which this runs, is its main
    host."""

    WAY: ClassVar = "srun"
    BEGUN_AGAIN: ClassVar = "its node failed, and Slurm began it again"

    telling: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start(self) -> None:
        """Starts the next attempt on its nodes."""
        self._end_leftovers()
        super().start()

    def _end_leftovers(self) -> None:
        """Ends what jobs that were killed have left on its nodes, where Slurm does not."""
        if leftovers.are_contained(os.environ):
            return
        leftovers.end_leftovers(self.shared, os.environ)
        if words := self._on_others():
            self._step([*words, *bundle.program(f"{_SLURM}.leftovers"), str(self.shared)])

    @cached_property
    def entry(self) -> container.Entry | None:
        """How its container is entered, if it has one."""
        folders = (str(self.run_folder.parents[1]), str(scratch.root()))
        return container.entry_of(self.run_folder, self.plan.directory, folders)

    def _tell(self, number: signal.Signals) -> None:
        """On every node: whatever launcher has started them, and in whichever session."""
        signal_task(self.plan.run, self.name, number)
        if words := self._on_others():
            words += [*bundle.program(f"{_SLURM}.others"), "signal"]
            step = [*words, self.plan.run, self.name, self.plan.signal]
            self.telling.append(subprocess.Popen(step, env=_for_step(), stderr=subprocess.DEVNULL))

    def _on_others(self) -> list[str]:
        """What runs a program once on each node but the main one; nothing where there is none."""
        names = [host.name for host in self.nodes[1:]]
        return [*STEP, f"--nodes={len(names)}", f"--nodelist={','.join(names)}"] if names else []

    def sampler_words(self, seconds: float) -> list[str]:
        """On each node; a step of several nodes ends with srun."""
        count = len(self.nodes)
        step = [*STEP, f"--nodes={count}", f"--ntasks={count}"] if count > 1 else []
        return [*step, *sampler(self.run_folder, seconds)]

    def leave_nodes(self, code: int) -> None:
        """With what it has told them, and with steps that a launcher left."""
        for step in self.telling:
            try:
                step.wait(_STEP_PATIENCE)
            except subprocess.TimeoutExpired:
                step.kill()
                step.wait()
        self.telling.clear()
        if code and len(self.nodes) > 1:
            self._end_steps()
        self._leave_others()

    def environment_outside(self) -> dict[str, str]:
        """What a step of Slurm's is started with."""
        return _for_step()

    def _leave_others(self) -> None:
        """Ends what the attempt has left on the other nodes, before its end is known."""
        if words := self._on_others():
            # What was told to end has had its grace.
            grace = _STRAY_GRACE if self.kill_at is None else 0.0
            names = [self.plan.run, self.name, str(grace), str(self.scratch_folder)]
            self._step([*words, *bundle.program(f"{_SLURM}.others"), "leave", *names])

    def _step(self, words: list[str]) -> None:
        """Runs what ends something on the other nodes, and goes on where one does not answer."""
        try:
            subprocess.call(
                words,
                env=_for_step(),
                stdin=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=_STEP_PATIENCE,
            )
        except subprocess.TimeoutExpired:
            names = ", ".join(host.name for host in self.nodes[1:])
            self._say_again(f"fairway: what was left on {names} may go on: no answer in time")

    def status(self, state: str) -> TaskState:
        """Also as which of Slurm's jobs it runs."""
        return replace(
            super().status(state),
            job=job_id(),
            requeues=int(os.environ.get("SLURM_RESTART_COUNT", "0")),
        )

    def _end_steps(self) -> None:
        """Ends what a launcher that was killed has left on other nodes: the next attempt must not
        meet it."""
        with suppress(commands.Refused):
            listed = commands.run(
                ["squeue", "-h", "-s", "-j", os.environ["SLURM_JOB_ID"], "-o", "%i"]
            )
            left = [step for step in listed.split() if step.rpartition(".")[2].isdecimal()]
            if left:
                commands.run(["scancel", "--signal=KILL", *left])

    def _command(self, script: Path) -> list[str]:
        command = super()._command(script)
        if self.entry is not None and len(self.nodes) == 1:
            command = self.entry.alone(command)
        elif self.entry is not None:
            self.entry.write(self.folder)
        if self.is_prepared:
            self._make_scratch()
            return command
        return [*bundle.program(_PREPARE), str(self.run_folder), "--outside", *command]

    def _inside(self) -> list[str]:
        """Does nothing: see `entry`."""
        return []

    def _make_scratch(self) -> None:
        """Makes the task's own folder on every node; what others left there goes."""
        folder = self.scratch_folder
        scratch.make(folder, scratch.Others.KEPT if self.share else scratch.Others.GONE)
        if words := self._on_others():
            make = 'rm -rf -- "$1" && mkdir -p -m 700 -- "$1"'
            subprocess.call(
                [*words, "sh", "-c", make, "sh", str(folder)],
                env=_for_step(),
                stdin=subprocess.DEVNULL,
            )

    def _contract(self) -> dict[str, str]:
        return super()._contract() | (self._of_share() if self.share else {})

    def _of_share(self) -> dict[str, str]:
        """What Slurm has said of its GPUs, which it may count anew in each job. And its launcher
        finds as many tasks of Slurm's as it has processes: as a job it is one, with all the CPUs.
        """
        assert self.share is not None, "it was asked"
        names = _VISIBLE if self.share.gpus else ()
        found = {name: os.environ[name] for name in names if name in os.environ}
        width = str(self.spec.processes_per_node)
        found |= dict.fromkeys(_OF_JOB, width)
        cpus = int(os.environ.get("SLURM_CPUS_PER_TASK", "1"))
        return found | {"SLURM_CPUS_PER_TASK": str(max(1, cpus // int(width)))}

    def _reach(self, path: str) -> dict[str, str]:
        """Within a container there is no srun, and no other node."""
        is_contained = self.entry is not None
        return launchers.contract(self.WAY, path, nodes=len(self.nodes), contained=is_contained)


_VISIBLE = ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")


def job_id() -> str:
    """As Slurm's commands take it: `12`, or `12_3` for an element of an array."""
    array = os.environ.get("SLURM_ARRAY_JOB_ID")
    if array:
        return f"{array}_{os.environ['SLURM_ARRAY_TASK_ID']}"
    return os.environ["SLURM_JOB_ID"]


# What the job was asked for, and would be asked of each step of its own again.
_OF_JOB = ("SLURM_NTASKS", "SLURM_NPROCS", "SLURM_NTASKS_PER_NODE", "SLURM_TASKS_PER_NODE")


def _for_step() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name not in _OF_JOB}
