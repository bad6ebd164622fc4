"""A task in an allocation of Slurm's: its nodes, and the contract there. Standard library only."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

from fairway_agent import bundle, scratch, state_files
from fairway_agent.fanout import ways
from fairway_agent.figures.sampling import Sampling, sampler
from fairway_agent.setup import SETUP_FAILED
from fairway_agent.shared.task import ClusterTask
from fairway_agent.slurm import commands, container, leftovers
from fairway_agent.slurm.others import signal_task

if TYPE_CHECKING:
    import signal
    from pathlib import Path

    from fairway_agent.task_state import TaskState

_SLURM = "fairway_agent.slurm"

_STRAY_GRACE = 2.0  # seconds for what an attempt has left on another node
_BEFORE = "before.txt"  # why the attempt before ended, where another job of Slurm's goes on

# One process a node, beside whatever else the job runs there.
STEP = ("srun", "--overlap", "--ntasks-per-node=1", "--mpi=none", "--input=none", "--quiet")


@dataclass
class SlurmTask(ClusterTask):
    """A task whose nodes Slurm has chosen; the first of them, on which this runs, is its main
    host. `submission` is that of the run, and `failures` counts the attempts that failed in it:
    one that a node's end or Slurm cut short is none."""

    WAY: ClassVar = "srun"
    IS_HERE: ClassVar = False

    submission: int = 0
    failures: int = 0
    told: list[subprocess.Popen[bytes]] = field(default_factory=list)
    sampling: Sampling | None = None
    reason: str | None = None

    def start(self) -> None:
        """Starts the next attempt on its nodes."""
        self.folder.mkdir(parents=True, exist_ok=True)
        for name in (SETUP_FAILED, _BEFORE):
            (self.folder / name).unlink(missing_ok=True)
        self._end_leftovers()
        super().start()
        self.sampling = Sampling(self.plan.sample_every, self._sampler, self._for_sampler)

    def _end_leftovers(self) -> None:
        """Ends what jobs that were killed have left on its nodes, where Slurm does not."""
        if leftovers.are_contained(os.environ):
            return
        leftovers.end_leftovers(self.shared, os.environ)
        if words := self._on_others():
            step = [*words, *bundle.program(f"{_SLURM}.leftovers"), str(self.shared)]
            subprocess.call(
                step, env=_for_step(), stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )

    @cached_property
    def entry(self) -> container.Entry | None:
        """How its container is entered, if it has one."""
        folders = (str(self.run_folder.parents[1]), str(scratch.root()))
        return container.entry_of(self.run_folder, self.plan.directory, folders)

    @property
    def is_prepared(self) -> bool:
        """Whether its nodes need nothing more before the script than folders."""
        return not self.plan.staged and not (self.run_folder / "setup.jsonl").exists()

    def resume_count(self) -> None:
        """Counts on from the attempts of earlier jobs of this run."""
        super().resume_count()
        last = state_files.read_task(self.folder)
        if last is not None and last.submission == self.submission:
            self.failures = last.failures or 0
            self.ends = Counter(last.ends_with_this)
            self.before = self._read_before()

    def keep_before(self, why: str) -> None:
        """Says on which words the next job of the task begins its log; its own state is written
        over meanwhile by why it waits."""
        with suppress(OSError):
            (self.folder / _BEFORE).write_text(why, encoding="utf-8")

    def _read_before(self) -> str:
        try:
            return (self.folder / _BEFORE).read_text(encoding="utf-8")
        except OSError:
            return "its node failed, and Slurm began it again"

    def has_retry(self) -> bool:
        """Whether it may be begun again after a failure."""
        return not self.limit and self.failures <= self.plan.retries

    def setup_failed(self) -> bool:
        """Whether the job's setup failed on one of its nodes in this attempt."""
        return (self.folder / SETUP_FAILED).exists()

    def _tell(self, number: signal.Signals) -> None:
        """On every node: whatever launcher has started them, and in whichever session."""
        signal_task(self.plan.run, self.name, number)
        if words := self._on_others():
            words += [*bundle.program(f"{_SLURM}.others"), "signal"]
            step = [*words, self.plan.run, self.name, self.plan.signal]
            self.told.append(subprocess.Popen(step, env=_for_step(), stderr=subprocess.DEVNULL))

    def _on_others(self) -> list[str]:
        """What runs a program once on each node but the main one; nothing where there is none."""
        names = [host.name for host in self.nodes[1:]]
        return [*STEP, f"--nodes={len(names)}", f"--nodelist={','.join(names)}"] if names else []

    def why(self) -> str | None:
        """Why it ended, where that is known."""
        return self.reason or super().why()

    def ended(self) -> int | None:
        """The exit code if the task has ended, with nothing of it left on any node."""
        code = super().ended()
        if code is not None:
            if self.sampling is not None:
                self.sampling.end()
            for step in self.told:
                step.wait()
            self.told.clear()
            if code and len(self.nodes) > 1:
                self._end_steps()
            self._leave_others()
        return code

    def finish(self, state: str, code: int) -> str:
        """Records the end, keeps the outputs, and leaves nothing on the nodes."""
        state = super().finish(state, code)
        shutil.rmtree(self.scratch_folder, ignore_errors=True)
        return state

    def _sampler(self, seconds: float) -> list[str]:
        """On each node; a step of several nodes ends with srun."""
        count = len(self.nodes)
        step = [*STEP, f"--nodes={count}", f"--ntasks={count}"] if count > 1 else []
        return [*step, *sampler(self.run_folder, seconds)]

    def _for_sampler(self) -> dict[str, str]:
        hidden = set(self.plan.secrets)
        return {name: value for name, value in _for_step().items() if name not in hidden}

    def _leave_others(self) -> None:
        """Ends what the attempt has left on the other nodes, before its end is known."""
        if words := self._on_others():
            # What was told to end has had its grace.
            grace = _STRAY_GRACE if self.kill_at is None else 0.0
            names = [self.plan.run, self.name, str(grace), str(self.scratch_folder)]
            step = [*words, *bundle.program(f"{_SLURM}.others"), "leave", *names]
            subprocess.call(
                step, env=_for_step(), stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )

    def status(self, state: str) -> TaskState:
        """Where it stands, where it runs, and as which of Slurm's jobs."""
        return replace(
            super().status(state),
            node=",".join(host.name for host in self.nodes),
            job=job_id(),
            submission=self.submission,
            failures=self.failures,
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
        return [*bundle.program(f"{_SLURM}.attempt"), str(self.run_folder), *command]

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
        base = super()._contract()
        # Made for the folder of all; the task's own is on each node's disk.
        shutil.rmtree(self.folder / "scratch", ignore_errors=True)
        return {**base, "FAIRWAY_MPI_ARGS": "", **(self._of_share() if self.share else {})}

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
        return ways.contract(self.WAY, path, nodes=len(self.nodes), contained=is_contained)


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
