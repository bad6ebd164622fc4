"""A Batch account on loopback, with the program `fairway` set up for it."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from program import Fairway

from fairway_runner.runs.store import Run
from fairway_simulator.batch import BatchSimulator
from fairway_simulator.batch.simulator import IDENTITY


@dataclass
class Batch:
    """The service, and the program in a folder whose `fairway.yaml` has it as `batch-sim`."""

    service: BatchSimulator
    fairway: Fairway

    @property
    def data(self) -> Path:
        """Folder that all nodes mount. Like the nodes' own it lies beside the project: a file that
        goes while the project's code is copied would fail the submission."""
        return self.fairway.folder.with_name(f"{self.fairway.folder.name}-data")

    def submit(self, job: Path, *arguments: str) -> Run:
        """Submits a job that must be accepted."""
        done = self.fairway.within(
            "submit", job, "--target", "batch-sim", "--json", "--yes", *arguments
        )
        assert done.returncode == 0, done.stderr
        return self.run(json.loads(done.stdout)["run_id"])

    def watch(self, job: Path, *arguments: str) -> tuple[int, str]:
        """Runs a job to its end: its exit code, and what was printed."""
        done = self.fairway.within(
            "submit", job, "--target", "batch-sim", "--watch", "--yes", *arguments
        )
        return done.returncode, done.stdout + done.stderr

    def ok(self, *arguments: str | Path) -> str:
        """Output of a command that must succeed."""
        done = self.fairway.within(*arguments)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def run(self, run_id: str) -> Run:
        """A run's folder."""
        return Run(self.fairway.folder / ".fairway" / "runs" / run_id)

    def runs(self) -> list[str]:
        """The ids of the runs that were recorded."""
        folder = self.fairway.folder / ".fairway" / "runs"
        return sorted(path.name for path in folder.glob("[!.]*"))

    def target(self, **changes: Any) -> None:
        """Writes the target, with these fields in place of its own."""
        usual = {
            "name": "batch-sim",
            "engine": "batch",
            "nodes": {"min": 0, "max": 4},
            "mounts": {"data": str(self.data)},
            "storage": {"containers": ["datasets", "outputs", "code"]},
            "batch": {"pool": "sim", "identity": IDENTITY},
        }
        made = {"targets": [{**usual, **changes}]}
        (self.fairway.folder / "fairway.yaml").write_text(json.dumps(made))


@dataclass
class Waiting(Batch):
    """A pool that waits for its first node, so that tasks are added and none runs."""

    def many(self, count: int) -> Path:
        """A job of `count` tasks."""
        points = [{"repeat": count}]
        return self.fairway.job("true", template="plain", sweep={"points": points})

    def tasks(self, run: Run) -> list[int]:
        """The numbers of the tasks that the service has, in their order."""
        account: Any = run.engine.account  # type: ignore[attr-defined]
        return sorted(int(task["id"]) for task in account.tasks(run.id, ["id"]))
