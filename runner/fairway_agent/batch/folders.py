"""Folders of a task on a node, and the run's record of the task."""

from __future__ import annotations

import json
import os
import shlex
import sys
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from fairway_agent import access, job_facts
from fairway_agent.fanout.sshd_mesh import SshMesh
from fairway_agent.task_logs import say as say
from fairway_boot.imds import Metadata

if TYPE_CHECKING:
    from fairway_agent.job_facts import JobFacts, TargetFacts
    from fairway_agent.spec import RunPlan, TaskSpec


class Folders:
    """Directories of this job on this node, from the environment that Batch sets."""

    def __init__(self) -> None:
        self.job = Path(os.environ.get("AZ_BATCH_JOB_PREP_WORKING_DIR") or self.work)
        """Of the job's preparation: the code, the record, Fairway's programs."""
        self.programs = self.job / "fairway"
        self.code = self.job / "code"
        self.record = self.job / "record"
        self.setup_file = self.job / "setup.json"
        self.index = self.job / "tasks.index"
        self.task = os.environ.get("FAIRWAY_TASK", "setup")
        """The task's name."""

    @cached_property
    def base(self) -> Path:
        """The task's own directory, which has the same path on each of its nodes."""
        shared = os.environ.get("AZ_BATCH_TASK_SHARED_DIR")
        return Path(shared, "fairway") if shared else self.work

    @cached_property
    def plan(self) -> RunPlan:
        """The run's `plan.json`."""
        return job_facts.read_plan(self.record)

    @cached_property
    def target(self) -> TargetFacts:
        """The run's `target.json`."""
        return job_facts.of_target(self.record)

    @cached_property
    def job_facts(self) -> JobFacts:
        """The run's `job.json`."""
        return job_facts.of_job(self.record)

    def secret_values(self) -> dict[str, str]:
        """Returns the job's secrets by variable, read with the pool's own identity. Raises
        AgentError, which contains no value, if one cannot be read."""
        identity = self.target.identity
        metadata = Metadata(identity={"msi_res_id": identity} if identity else {})
        return access.secret_values(self.job_facts.secrets, self.target.vault_url, metadata.bearer)

    @property
    def run(self) -> str:
        """The run's id; that of a schedule's run includes the job's number."""
        run = self.plan.run
        if "FAIRWAY_SCHEDULE" in os.environ:
            return f"{run}-{os.environ['AZ_BATCH_JOB_ID'].rpartition('-')[2]}"
        return run

    @property
    def submission(self) -> int:
        """Number of the run's submission, from 0, if its job has to know it."""
        return int(os.environ.get("FAIRWAY_SUBMISSION", "0"))

    @property
    def mesh(self) -> SshMesh:
        """Mesh through which the task's nodes reach each other."""
        shared = os.environ.get("AZ_BATCH_TASK_SHARED_DIR", "")
        return SshMesh(
            name=f"{self.run}/{self.task}",
            folder=self.base / "ssh",
            key=Path(shared, "fairway_key"),
            serve=f"{shlex.quote(str(self.programs))}/fairway-node serve",
        )

    @cached_property
    def shared_root(self) -> Path | None:
        """Fairway's folder on the file system that all nodes mount; None without one."""
        mounts = [Path(path) for path in self.target.mounts.values()]
        if not mounts and (folder := os.environ.get("AZ_BATCH_NODE_MOUNTS_DIR")):
            # The pool's own mounts, which the target may not name.
            mounts = [path for path in sorted(Path(folder).glob("*")) if path.is_dir()]
        return mounts[0] / "fairway" if mounts else None

    @cached_property
    def shared(self) -> Path:
        """FAIRWAY_SHARED_DIR: the run's own on the mounted file system, or else this node's."""
        root = self.shared_root or Path(os.environ["AZ_BATCH_NODE_SHARED_DIR"], "fairway")
        return root / "runs" / self.run

    @property
    def before_file(self) -> Path:
        """File with the reason why the previous attempt ended."""
        return self.shared / "attempts" / f"{self.task}.ending"

    @cached_property
    def scratch(self) -> Path:
        """FAIRWAY_SCRATCH_DIR: on the node's local NVMe disks if it has any."""
        disk = Path("/mnt/resource_nvme")
        if os.path.ismount(disk) and os.access(disk, os.W_OK):
            return disk / "fairway" / self.run / self.task
        return self.base / "scratch"

    @property
    def work(self) -> Path:
        """Folder from which Batch uploads files."""
        return Path(os.environ["AZ_BATCH_TASK_WORKING_DIR"])

    @property
    def written(self) -> Path:
        """Folder into which the task writes its outputs, each into a folder of its own."""
        return self.base / "outputs"

    def directories(self, spec: TaskSpec) -> dict[str, Path]:
        """Returns the directories of the contract, by variable. Checkpoints are the job's, which
        outlive the run, or the task's own."""
        checkpoint = self.shared / "checkpoints" / self.task
        if spec.checkpoint is not None:
            checkpoint = (self.shared_root or self.shared.parent.parent) / spec.checkpoint
        return {
            "FAIRWAY_SHARED_DIR": self.shared,
            "FAIRWAY_SCRATCH_DIR": self.scratch,
            "FAIRWAY_CHECKPOINT_DIR": checkpoint,
        }

    def make_directories(self, spec: TaskSpec) -> None:
        """Creates the directories on this node, and those of the task's outputs."""
        outputs = [self.written / name for name in spec.outputs]
        for directory in (self.base, *self.directories(spec).values(), *outputs):
            directory.mkdir(parents=True, exist_ok=True)

    def inputs(self) -> dict[str, str]:
        """Returns FAIRWAY_INPUT_<ID> of the inputs staged here."""
        found = {}
        for each in self.plan.staged:
            root = self.job / "inputs" / each.name
            if each.stage == "shared" and self.shared_root is not None:
                root = self.shared_root / "inputs" / each.container
            found[f"FAIRWAY_INPUT_{each.name.upper()}"] = str(each.to or root / each.path)
        return found

    def spec(self) -> TaskSpec:
        """Returns the plan's line of the task that runs here."""
        if self.task == "setup" or "FAIRWAY_LAST" in os.environ:
            name = "setup.jsonl" if self.task == "setup" else "finally.jsonl"
            return job_facts.read_spec(self.record / name)
        return job_facts.read_indexed(self.record / "tasks.jsonl", self.index, int(self.task))

    def setup_code(self) -> int:
        """Returns the exit code of the job's setup on this node; 0 if it has none."""
        return int(json.loads(self.setup_file.read_bytes())["exit_code"])


def fail(text: str, code: int) -> int:
    """Prints why nothing was started, and returns the exit code."""
    say(text)
    sys.stdout.flush()
    return code
