"""A task on nodes that Batch has given it: what its script relies on there, and one attempt."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from fairway_agent import record
from fairway_agent.allocators import batch, ledger
from fairway_agent.batch.folders import Folders, fail, say
from fairway_agent.batch.tracking import Track, is_tracked, watch_of, write_ending
from fairway_agent.devices import look
from fairway_agent.fanout import launchers
from fairway_agent.fanout.sshd import forced_command, server
from fairway_agent.figures.sampling import Sampling, sampler
from fairway_agent.log_marks import print_line
from fairway_agent.share import SHARE_FILE, Lent, NeverFits
from fairway_agent.task import Task
from fairway_agent.task_state import (
    CANCELLATION,
    CANCELLED,
    NO_START,
    NODE,
    PREEMPTION,
    SERVICE,
    outcome,
)

if TYPE_CHECKING:
    import signal
    from collections.abc import Mapping
    from typing import BinaryIO

    from fairway_agent.batch.tracking import PoolWatch
    from fairway_agent.figures.idle import IdleWatch
    from fairway_agent.limits import Over
    from fairway_agent.share import Wanted
    from fairway_agent.task_spec import TaskSpec
    from fairway_agent.task_state import TaskState

_LOST = {PREEMPTION: "its node was taken away", NODE: "its node was lost"}
RUNNING = "fairway.running"
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

    `config` is that of ssh to its other nodes, and `notice` what Azure has announced. `submission`
    is that of the run, and `over` the limit of its own that it was over. `give_notice` may be
    called from a thread.
    """

    WAY: ClassVar = "sshd"

    folders: Folders = field(default_factory=Folders)
    config: Path | None = None
    notice: str = ""
    sampling: Sampling | None = None
    submission: int = 0
    over: Over | None = None

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
        task.folders, task.submission = folders, folders.submission
        task.resume_count()
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

    @cached_property
    def track(self) -> Track:
        """The word that it leaves for others of its run."""
        return Track(self.folders, self.name, is_tracked(self.plan))

    @cached_property
    def watch(self) -> PoolWatch:
        """What looks whether its run is over a limit."""
        return watch_of(self.folders, self.plan, self.submission)

    def resume_count(self) -> None:
        """Counts on from its attempts before, whichever node they had."""
        before = self.track.read()
        if before is None:
            return
        self.held = before.held or 0.0
        if before.state == "running":
            self.held += self.track.lived(before)
        if before.submission == self.submission:
            self.ends = Counter(before.ends_with_this)

    def ended_before(self) -> TaskState | None:
        """Its end, where it is not to begin again and Batch does so all the same, as it does after
        any exit code but 0; None where it is to begin."""
        before = self.track.read()
        mine = before is not None and before.submission == self.submission
        return (
            before if before is not None and mine and before.is_final and before.stopped else None
        )

    def refusal_now(self) -> TaskState | None:
        """Its end, where it must not begin: its run is over a limit, or its nodes were lost as
        often as they may; None where it may."""
        self.watch.begin()
        if self.watch.is_over():
            self.over = self.watch.over
            return self.final("cancelled", CANCELLED, self.why(), stopped=True)
        used = [cause for cause in (PREEMPTION, NODE) if self.is_used_up(cause)]
        if not used:
            return None
        reason = f"{_LOST[used[0]]}; {self.why_no_more()}"
        return self.final("failed", SERVICE, reason, stopped=True)

    def final(
        self, state: str, code: int, reason: str | None, *, stopped: bool = False
    ) -> TaskState:
        """That it ended so, which is written; `stopped` says that it is not to begin again."""
        status = replace(self.status(state), ended=time.time(), exit_code=code, reason=reason)
        status = replace(status, timed_out=self.timed_out, stopped=stopped or None)
        self.record(status)
        return status

    def run(self) -> TaskState:
        """Runs the script to its end; how it ended."""
        self.running_file.touch()
        sys.stdout.flush()
        try:
            if self.spec.wanted is not None and not self._take_share(self.spec.wanted):
                return self._end(CANCELLED)
        except (OSError, NeverFits) as error:
            reason = f"the task was not started: {error}"
            return self.final("failed", fail(reason, NO_START), reason)
        try:
            code = self._run()
        finally:
            if self.share is not None:
                ledger.give_back(self.share)
        return self._end(code)

    def _end(self, code: int) -> TaskState:
        state, code = outcome(self.told, code, again=bool(self.told))
        if state == "queued":
            # Batch begins it elsewhere, or it goes on here: nothing has failed.
            status = replace(self.status("running"), exit_code=code, stopped=True)
            self.record(status)
            return status
        ended_early = self.over is not None or bool(self.limit)
        if state == "failed" and not ended_early:
            self.note_end()
        return self.final(state, code, self.why(), stopped=ended_early)

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
            if self.notice or not self.running_file.exists():
                self.told = PREEMPTION if self.notice else CANCELLATION
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
        return CANCELLED if self.told == CANCELLATION else code

    def keep_deadline(self) -> None:
        """Does what is due, and ends a task that was cancelled, or whose node goes."""
        if self.kill_at is None and not self.running_file.exists():
            say("the run is cancelled")
            self.stop(CANCELLATION)
        if self.notice:
            self.stop(PREEMPTION)
        if self.kill_at is None and self.watch.is_over():
            self.over = self.watch.over
            self.stop(timed_out=True)
        self.track.keep(time.monotonic())
        super().keep_deadline()

    def stop(self, why: str = "", *, timed_out: bool = False) -> None:
        """Asks the job's own processes on every node to end; they have the job's grace."""
        if self.process is None:  # it has not begun
            return
        if timed_out and self.kill_at is None and not self.limit:
            say(self.why() or f"the task is over its {self.plan.timeout:g} s")
        super().stop(why, timed_out=timed_out)

    def _tell(self, number: signal.Signals) -> None:
        if self.config is not None:
            server.order(self.config, self.others, f"fairway-signal {self.plan.signal}")
        super()._tell(number)

    def why(self) -> str | None:
        """That Azure takes the node away, where it said so, or over which limit it was."""
        if self.notice:
            return f"Azure announced {self.notice} of its node"
        return f"the run ends: {self.over.reason}" if self.over is not None else super().why()

    def give_notice(self, kind: str) -> None:
        """Has the task end soon: Azure says this about one of its nodes."""
        say(f"Azure announces: {kind}; the job has {self.plan.grace:g} s to save what it has")
        if self.process is not None:
            self.record(replace(self.status("running"), stopped=True))
        self.notice = kind

    def note_stay(self) -> None:
        """The node is not taken away after all: the attempt that ended for it counts as nothing."""
        self.record(self.status("queued"))

    def sessions(self) -> set[int]:
        """Also those of what other nodes have started here."""
        return super().sessions() | forced_command.sessions(self.folder)

    def record(self, status: TaskState) -> None:
        """Batch says where its tasks stand; others of the run may want to know more, and clients
        whether its GPUs are idle."""
        self.track.write(status)
        if self.idle is not None and status.state == "running":
            write_ending(self.folders, status)

    def status(self, state: str) -> TaskState:
        """Where it stands, and in which submission of the run."""
        node = os.environ.get("AZ_BATCH_NODE_ID") or None
        return replace(super().status(state), submission=self.submission, node=node)

    def _idle_watch(self) -> IdleWatch | None:
        """By the samples that all its nodes print here."""
        watch = super()._idle_watch()
        if watch is None:
            return None
        names = [host.name for host in self.nodes]
        return replace(watch, nodes=names, printed=self._samples(), due=time.monotonic())

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
            self._samples(),
        )

    def _samples(self) -> Path:
        return Path(os.environ["AZ_BATCH_TASK_WORKING_DIR"], "logs", "figures.txt")

    def _say_again(self, line: str) -> None:
        print_line(line)  # what this prints is the task's log

    def _log(self) -> BinaryIO:
        """What Batch keeps of this program's own output."""
        return os.fdopen(os.dup(1), "wb")

    def _log_file(self) -> Path:
        return Path(os.environ["AZ_BATCH_TASK_DIR"], "stdout.txt")

    def _inside(self) -> list[str]:
        """Does nothing: this program is in the job's container."""
        return []

    def _written(self) -> Path:
        return self.folders.base / "outputs"

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
        return found | launchers.of_root()
