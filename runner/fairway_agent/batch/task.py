"""A task on nodes that Batch has given it: what its script relies on there, and one attempt."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from fairway_agent import record
from fairway_agent.allocators import batch, ledger
from fairway_agent.batch.folders import Folders, fail, say
from fairway_agent.devices import look
from fairway_agent.fanout.sshd import forced_command, server
from fairway_agent.figures.sampling import Sampling, sampler
from fairway_agent.share import SHARE_FILE, Lent, NeverFits
from fairway_agent.task import Task

if TYPE_CHECKING:
    import signal
    from collections.abc import Mapping
    from typing import BinaryIO

    from fairway_agent.share import Wanted
    from fairway_agent.task_spec import TaskSpec
    from fairway_agent.task_state import TaskState

CANCELLED = 130
NO_START = 69  # EX_UNAVAILABLE of sysexits.h
RUNNING = "fairway.running"
TIMES = "times.txt"
"""When the log had which size."""
_PAUSE = 0.5


def directories(folders: Folders, spec: TaskSpec) -> dict[str, Path]:
    """The directories of the contract, by variable."""
    found = {
        "FAIRWAY_SHARED_DIR": folders.shared,
        "FAIRWAY_SCRATCH_DIR": folders.scratch,
        "FAIRWAY_CHECKPOINT_DIR": folders.checkpoint(spec),
    }
    for name in spec.outputs:
        found[f"FAIRWAY_OUTPUT_{name.upper()}"] = folders.base / "outputs" / name
    return found


def make_directories(folders: Folders, spec: TaskSpec) -> None:
    """Makes them on this node."""
    for directory in (folders.base, *directories(folders, spec).values()):
        directory.mkdir(parents=True, exist_ok=True)


@dataclass
class BatchTask(Task):
    """A task that Batch has started, and each time starts again, on its main node.

    `config` is that of ssh to its other nodes, and `notice` what Azure has announced. `stop` may
    be called from a signal's handler or a thread.
    """

    WAY: ClassVar = "sshd"

    folders: Folders = field(default_factory=Folders)
    config: Path | None = None
    notice: str = ""
    sampling: Sampling | None = None

    @classmethod
    def here(cls, folders: Folders, spec: TaskSpec, number: int) -> BatchTask:
        """The task that runs here, before its attempt of that number; it has the job's secrets.
        OSError or Fault where its nodes or secrets are not to be had."""
        values = folders.secret_values()
        os.environ.update(values)  # into this process's memory alone
        plan = replace(
            folders.plan, run=folders.run, directory=str(folders.code), secrets=tuple(values)
        )
        task = cls(plan, spec, folders.shared, folders.base, number - 1, nodes=batch.given())
        task.folders = folders
        if len(task.nodes) > 1:
            task.config = server.connect(folders.meeting, [host.address for host in task.nodes])
        return task

    @property
    def name(self) -> str:
        """The task's name, as Batch has it."""
        return self.folders.task

    @property
    def others(self) -> list[str]:
        """The addresses of its nodes but this one."""
        return [host.address for host in self.nodes[1:]]

    @property
    def running_file(self) -> Path:
        """The file by whose removal a client, which has no other way in, cancels the task."""
        return Path(os.environ["AZ_BATCH_TASK_WORKING_DIR"], RUNNING)

    def run(self) -> int:
        """Runs the script to its end; returns its exit code."""
        self.running_file.touch()
        sys.stdout.flush()
        try:
            if self.spec.wanted is not None and not self._take_share(self.spec.wanted):
                return CANCELLED
        except (OSError, NeverFits) as error:
            return fail(f"the task was not started: {error}", NO_START)
        try:
            return self._run()
        finally:
            if self.share is not None:
                ledger.give_back(self.share)

    def _take_share(self, wanted: Wanted) -> bool:
        """Waits for what the task wants of its node, which programs that another has left behind
        may have for a while yet, and says what it has; False where it is to end before."""
        file = Path(os.environ["AZ_BATCH_TASK_WORKING_DIR"], "logs", SHARE_FILE)
        file.unlink(missing_ok=True)  # of an attempt before
        devices, said = look(), False
        while (share := batch.share_of(devices, wanted)) is None:
            if not said:
                say(f"the task waits for {wanted} of its node")
            said = True
            time.sleep(_PAUSE)
            self.cancelled = not self.running_file.exists()
            if self.cancelled or self.notice:
                say("the task ends before it has begun")
                return False
        self.nodes = [replace(self.nodes[0], share=share)]
        lent = Lent(self.attempt + 1, share.gpus, share.cores, share.part)
        record.write_json(file, lent.to_json())
        return True

    def _run(self) -> int:
        try:
            self.start()
        except OSError as error:  # the disk is full
            return fail(f"the task was not started: {error}", NO_START)
        assert self.process is not None, "it was started"
        assert self.sampling is not None, "it was started with the process"
        while (code := self.ended()) is None:
            try:
                self.process.wait(_PAUSE)
            except subprocess.TimeoutExpired:
                self.keep_deadline()
                self.sampling.keep()
        self.sampling.end()
        # Whatever it ends with, it is not done.
        return CANCELLED if self.cancelled else code

    def keep_deadline(self) -> None:
        """Does what is due, and ends a task that was cancelled."""
        if self.kill_at is None and not self.running_file.exists():
            self.cancelled = True
            say("the run is cancelled")
            self.stop()
        super().keep_deadline()

    def stop(self, *, timed_out: bool = False) -> None:
        """Asks the job's own processes on every node to end; they have the job's grace."""
        if self.process is None:  # it has not begun
            return
        if timed_out and self.kill_at is None:
            say(f"the task is over its {self.plan.timeout:g} s")
        super().stop(timed_out=timed_out)

    def _tell(self, number: signal.Signals) -> None:
        if self.config is not None:
            server.order(self.config, self.others, f"fairway-signal {self.plan.signal}")
        super()._tell(number)

    def why(self) -> str | None:
        """That Azure takes the node away, where it said so."""
        return f"Azure announced {self.notice} of its node" if self.notice else None

    def give_notice(self, kind: str) -> None:
        """Acts on what Azure says about one of the nodes."""
        say(f"Azure announces: {kind}; the job has {self.plan.grace:g} s to save what it has")
        self.notice = kind
        self.stop()

    def sessions(self) -> set[int]:
        """Also those of what other nodes have started here."""
        return super().sessions() | forced_command.sessions(self.folder)

    def record(self, status: TaskState) -> None:
        """Does nothing: Batch says where its tasks stand."""

    def _launch(self, script: Path, environment: dict[str, str]) -> subprocess.Popen[bytes]:
        self.sampling = self._sampling(environment)
        return super()._launch(script, environment)

    def _sampling(self, environment: Mapping[str, str]) -> Sampling:
        """What samples the task's nodes. They share no folder: all of it comes to the main one,
        into a file that is kept with the logs."""
        # It is none of the task's programs, and needs no secret.
        hidden = {*self.plan.secrets, self.MARK}
        kept = {name: value for name, value in environment.items() if name not in hidden}
        each_node = str(self.folders.programs / "fairway-each-node")
        return Sampling(
            self.plan.sample_every,
            lambda seconds: [each_node, *sampler(None, seconds)],
            lambda: kept,
            Path(os.environ["AZ_BATCH_TASK_WORKING_DIR"], "logs", "figures.txt"),
        )

    def _say_again(self, line: str) -> None:
        print(line, flush=True)  # noqa: T201 - what this prints is the task's log

    def _log(self) -> BinaryIO:
        """What Batch keeps of this program's own output."""
        return os.fdopen(os.dup(1), "wb")

    def _log_file(self) -> Path:
        return Path(os.environ["AZ_BATCH_TASK_DIR"], "stdout.txt")

    def _log_times(self) -> Path:
        """It is kept with the logs."""
        return Path(os.environ["AZ_BATCH_TASK_WORKING_DIR"], "logs", TIMES)

    def _inside(self) -> list[str]:
        """Does nothing: this program is in the job's container."""
        return []

    def _directories(self) -> dict[str, Path]:
        return directories(self.folders, self.spec)

    def _session_folder(self) -> Path:
        """On each node's own disk."""
        return self.folders.scratch / f"mpi{self.attempt}"

    def _kept(self) -> Path:
        """Batch has brought it from storage, where it lies below the run's name."""
        return self.folders.kept / self.plan.run

    def _contract(self) -> dict[str, str]:
        found = {**super()._contract(), **self.folders.inputs(), "FAIRWAY_MPI_ARGS": ""}
        if self.config is not None:
            found["FAIRWAY_SSH_CONFIG"] = str(self.config)
        if os.geteuid() == 0:
            # What Open MPI wants to hear before it runs as root, as it does in some containers.
            found |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        return found
