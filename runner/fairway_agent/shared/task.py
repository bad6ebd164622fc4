"""Tasks whose run lies in the folder that all nodes see, and which have whole nodes for themselves;
and those of them that a scheduler starts: it chooses their nodes, and may start them on others.

Standard library only.
"""

from __future__ import annotations

import os
import shutil
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from fairway_agent import scratch, state_files
from fairway_agent.figures.sampling import Sampling
from fairway_agent.setup import SETUP_FAILED
from fairway_agent.task import Task

if TYPE_CHECKING:
    from pathlib import Path

    from fairway_agent.task_state import TaskState

_BEFORE = "before.txt"  # why the attempt before ended, where the scheduler starts it again


@dataclass
class ClusterTask(Task):
    """What tasks have in common behind ssh and in Slurm: where their files lie on a node."""

    @property
    def shared(self) -> Path:
        """The folder that all nodes see."""
        return self.run_folder.parents[1]

    @property
    def scratch_folder(self) -> Path:
        """Its own folder on each node's local disk."""
        return scratch.root() / "tasks" / f"{self.plan.run}-{self.name}"

    def _session_folder(self) -> Path:
        """On each node's own disk, which goes with the task."""
        return self.scratch_folder / f"mpi{self.attempt}"

    def _checkpoint_directory(self) -> Path:
        own = super()._checkpoint_directory()
        return self.shared / "checkpoints" / own  # which an absolute path is itself

    def _contract(self) -> dict[str, str]:
        inputs = {
            f"FAIRWAY_INPUT_{entry.name.upper()}": str(scratch.input_folder(self.shared, entry))
            for entry in self.plan.staged
        }
        return {
            **super()._contract(),
            **inputs,
            "FAIRWAY_SCRATCH_DIR": str(self.scratch_folder),
            "FAIRWAY_TASK_FOLDER": str(self.folder),
        }


@dataclass
class ScheduledTask(ClusterTask):
    """A task that runs on the first of its nodes. `submission` is that of the run, and `failures`
    counts the attempts that failed in it: one that a node's end or the scheduler cut short is
    none. BEGUN_AGAIN is why the one before ended where nobody could say it."""

    IS_HERE: ClassVar = False
    BEGUN_AGAIN: ClassVar[str]

    submission: int = 0
    failures: int = 0
    sampling: Sampling | None = None
    reason: str | None = None

    def start(self) -> None:
        """Starts the next attempt on its nodes."""
        self.folder.mkdir(parents=True, exist_ok=True)
        for name in (SETUP_FAILED, _BEFORE):
            (self.folder / name).unlink(missing_ok=True)
        super().start()
        self.sampling = Sampling(self.plan.sample_every, self.sampler_words, self._for_sampler)

    @property
    def is_prepared(self) -> bool:
        """Whether its nodes need nothing more before the script than folders."""
        return not self.plan.staged and not (self.run_folder / "setup.jsonl").exists()

    def resume_count(self) -> None:
        """Counts on from the attempts that the scheduler has started before."""
        super().resume_count()
        last = state_files.read_task(self.folder)
        if last is not None and last.submission == self.submission:
            self.failures = last.failures or 0
            self.ends = Counter(last.ends_with_this)
            self.before = self._read_before()

    def keep_before(self, why: str) -> None:
        """Says on which words the task begins its log where the scheduler starts it next; its own
        state is written over meanwhile by why it waits."""
        with suppress(OSError):
            (self.folder / _BEFORE).write_text(why, encoding="utf-8")

    def _read_before(self) -> str:
        try:
            return (self.folder / _BEFORE).read_text(encoding="utf-8")
        except OSError:
            return self.BEGUN_AGAIN

    def has_retry(self) -> bool:
        """Whether it may be begun again after a failure."""
        return not self.limit and self.failures <= self.plan.retries

    def setup_failed(self) -> bool:
        """Whether the job's setup failed on one of its nodes in this attempt."""
        return (self.folder / SETUP_FAILED).exists()

    def why(self) -> str | None:
        """Why it ended, where that is known."""
        return self.reason or super().why()

    def ended(self) -> int | None:
        """The exit code if the task has ended, with nothing of it left on any node."""
        code = super().ended()
        if code is not None:
            if self.sampling is not None:
                self.sampling.end()
            self.leave_nodes(code)
        return code

    def leave_nodes(self, code: int) -> None:
        """Ends what an attempt with this exit code has left on its nodes."""
        raise NotImplementedError

    def finish(self, state: str, code: int) -> str:
        """Records the end, keeps the outputs, and leaves nothing on the nodes."""
        state = super().finish(state, code)
        shutil.rmtree(self.scratch_folder, ignore_errors=True)
        return state

    def status(self, state: str) -> TaskState:
        """Where it stands, and where it runs."""
        return replace(
            super().status(state),
            node=",".join(host.name for host in self.nodes),
            submission=self.submission,
            failures=self.failures,
        )

    def sampler_words(self, seconds: float) -> list[str]:
        """What samples each of its nodes."""
        raise NotImplementedError

    def environment_outside(self) -> dict[str, str]:
        """What programs are started with that are none of the job's."""
        return dict(os.environ)

    def _for_sampler(self) -> dict[str, str]:
        hidden = set(self.plan.secrets)
        return {
            name: value for name, value in self.environment_outside().items() if name not in hidden
        }

    def _contract(self) -> dict[str, str]:
        base = super()._contract()
        # Made for the folder of all; the task's own is on each node's disk.
        shutil.rmtree(self.folder / "scratch", ignore_errors=True)
        return {**base, "FAIRWAY_MPI_ARGS": ""}
