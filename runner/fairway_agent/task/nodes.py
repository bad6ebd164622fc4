"""How the nodes of a task are reached, and where its files lie on them: this machine, or nodes that
all see the folder in which a run lies, and each have a local disk."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from fairway_agent import outputs, processes, scratch, state_files, task_logs
from fairway_agent.fanout import launchers
from fairway_agent.fanout.remote_exec import LOST
from fairway_agent.figures.sampler import Sampling
from fairway_agent.prepare import SETUP_FAILED, has_setup
from fairway_agent.quick import dataclass

if TYPE_CHECKING:
    import signal
    from collections.abc import Sequence
    from typing import BinaryIO

    from fairway_agent.figures.idle import IdleWatch
    from fairway_agent.state_files import TaskState
    from fairway_agent.task.task import Task


@dataclass(frozen=True, slots=True)
class Loss:
    """Nodes that an attempt has lost: the cause for which it counts, what a person is told, and the
    addresses of those that could not be reached any more."""

    cause: str
    reason: str
    addresses: Sequence[str] = ()


class Nodes:
    """How a task's nodes are reached, and where its files lie on them. Here they are this machine,
    which the ranks of a task share; other kinds override what differs."""

    # Not FAIRWAY_…, which launchers pass on to other nodes.
    MARK: ClassVar = "_FAIRWAY_MARK"
    # How a launcher reaches them; see `fanout.launchers`.
    WAY: ClassVar = "local"
    # Whether the script is started on its node by this very process.
    IS_HERE: ClassVar = True
    # Whether a lost node counts as a failure of the task where the job has no limit for it.
    LOSSES_ARE_FAILURES: ClassVar = True

    def mark(self, task: Task) -> str:
        """The value of `MARK` in its processes' environment: it begins with the run's folder."""
        return f"{task.run_folder}#{task.name}"

    def prepare(self, task: Task) -> None:
        """Makes them ready for the next attempt."""

    def command(self, task: Task, script: Path) -> list[str]:
        """The command line that runs the script: in the job's container, but for the setup."""
        inside: list[str] = []
        if task.is_contained:
            from fairway_agent import container  # most jobs have none

            inside = container.entry(task.run_folder)
        return [*inside, "bash", str(script)]

    def sessions(self, task: Task) -> set[int]:
        """The sessions of processes here that were started from other nodes."""
        return set()

    def signal(self, task: Task, number: signal.Signals) -> None:
        """Sends the task's programs the signal, wherever they run."""
        processes.signal_sessions(task.sessions(), number)

    def sampling(self, task: Task, environment: dict[str, str]) -> Sampling:
        """The sampling of the nodes during an attempt; none if something else samples them."""
        return Sampling()

    def clean(self, task: Task, code: int) -> None:
        """Ends what an attempt with this exit code has left on the other nodes."""

    def leave(self, task: Task) -> None:
        """Removes what lies there of a task that has ended."""
        shutil.rmtree(task.folder / "scratch", ignore_errors=True)

    def loss(self, task: Task) -> Loss | None:
        """Returns the nodes that the last attempt has lost; None if it has lost none."""

    def setup_failed(self, task: Task) -> bool:
        """True if the attempt ended because the job's setup failed on one of the nodes."""
        return False

    def facts(self, task: Task) -> dict[str, Any]:
        """The fields of the task's state that say where it runs, and for which submission."""
        return {}

    def record(self, task: Task, status: TaskState) -> None:
        task.states.write(task.folder / state_files.FILE, status)

    def idle_watch(self, task: Task, watch: IdleWatch) -> IdleWatch:
        """Returns the watch on the task's idle GPUs, adapted to how these nodes are sampled."""
        return watch

    def directories(self, task: Task) -> dict[str, Path]:
        """The directories of the contract, by variable, which are made for each attempt."""
        return {
            "FAIRWAY_SHARED_DIR": task.run_folder / "shared",
            "FAIRWAY_SCRATCH_DIR": task.folder / "scratch",
            "FAIRWAY_CHECKPOINT_DIR": Path(
                task.spec.checkpoint or task.run_folder / "checkpoints" / task.name
            ),
        }

    def session_folder(self, task: Task) -> Path:
        """Where MPI's launchers make a folder of the attempt's own: one that nobody can guess. The
        run's folder may be on the network, and its path too long for a socket."""
        return Path(os.environ.get("TMPDIR") or "/tmp", f"fairway-{os.urandom(8).hex()}")  # noqa: S108 - as above

    def contract(self, task: Task) -> dict[str, str]:
        """The variables that these nodes add to the contract."""
        return {}

    def reach(self, task: Task, path: str) -> dict[str, str]:
        """The variables by which the launcher reaches them."""
        return launchers.contract(self.WAY, path, nodes=len(task.addresses()))

    def log_file(self, task: Task) -> Path:
        """The file from which what the task prints can be read."""
        return task.folder / "log.txt"

    def open_log(self, task: Task) -> BinaryIO:
        """Where what it prints is kept."""
        return self.log_file(task).open("ab")

    def append_log_line(self, task: Task, line: str) -> None:
        """Adds a line of Fairway's own to the log."""
        task_logs.append(self.log_file(task), line)

    def written(self, task: Task) -> Path:
        """The folder in which its outputs are, each in a folder of its own, as it writes them."""
        return task.folder / "work"

    def kept(self, task: Task) -> Path:
        """Where what each task of the run has kept lies, in TASK/outputs."""
        return task.run_folder / "tasks"

    def collect(self, task: Task, *, succeeded: bool) -> None:
        """Keeps the outputs that are to be kept; OSError where that fails."""
        if task.spec.outputs:
            kept = task.folder / "outputs"
            outputs.collect(self.written(task), kept, task.spec.outputs, succeeded=succeeded)


def scratch_folder(task: Task) -> Path:
    """The task's own folder on each node's local disk."""
    return scratch.root() / "tasks" / f"{task.plan.run}-{task.name}"


def is_prepared(task: Task) -> bool:
    """True if the task's nodes need nothing but folders before its script."""
    return not task.plan.staged and not has_setup(task.run_folder)


class SharedNodes(Nodes):
    """Nodes that share the run's folder. Where a scheduler has chosen them, the attempts of the
    task run on the first of them, and sample them all."""

    IS_HERE: ClassVar = False
    LOSSES_ARE_FAILURES: ClassVar = False

    def prepare(self, task: Task) -> None:
        """Forgets what the attempt before has said of its nodes."""
        task.folder.mkdir(parents=True, exist_ok=True)
        for name in (SETUP_FAILED, LOST):
            (task.folder / name).unlink(missing_ok=True)

    def setup_failed(self, task: Task) -> bool:
        # Listed: a node that has looked for a file believes for a while that it is not there.
        return any(each.name == SETUP_FAILED for each in task.folder.iterdir())

    def leave(self, task: Task) -> None:
        super().leave(task)
        shutil.rmtree(scratch_folder(task), ignore_errors=True)

    def facts(self, task: Task) -> dict[str, Any]:
        names = ",".join(host.name for host in task.hosts)
        return {"node": names or None, "submission": task.submission}

    def sampling(self, task: Task, environment: dict[str, str]) -> Sampling:
        return Sampling(
            task.plan.sample_every,
            lambda seconds: self.sampler_words(task, seconds),
            lambda: self.environment_outside(task),
            task.plan.secrets,
        )

    def sampler_words(self, task: Task, seconds: float) -> list[str]:
        raise NotImplementedError

    def environment_outside(self, task: Task) -> dict[str, str]:
        """Returns the environment of programs that are not the job's own."""
        return dict(os.environ)

    def session_folder(self, task: Task) -> Path:
        return scratch_folder(task) / f"mpi{task.attempt}"

    def directories(self, task: Task) -> dict[str, Path]:
        """Those in the folder that all nodes see; the one on each node's disk is in `contract`."""
        found = super().directories(task)
        del found["FAIRWAY_SCRATCH_DIR"]
        own = found["FAIRWAY_CHECKPOINT_DIR"]  # an absolute one stays itself
        found["FAIRWAY_CHECKPOINT_DIR"] = task.run_folder.parents[1] / "checkpoints" / own
        return found

    def contract(self, task: Task) -> dict[str, str]:
        """Where staged inputs and the task's own folder lie on each node."""
        shared = task.run_folder.parents[1]
        inputs = {
            f"FAIRWAY_INPUT_{entry.name.upper()}": str(scratch.input_folder(shared, entry))
            for entry in task.plan.staged
        }
        own = {"FAIRWAY_SCRATCH_DIR": str(scratch_folder(task))}
        return {**inputs, **own, "FAIRWAY_TASK_FOLDER": str(task.folder), "FAIRWAY_MPI_ARGS": ""}
