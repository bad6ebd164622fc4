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
    """The service, and the program in a folder whose `fairway.yaml` declares it as `batch-sim`."""

    service: BatchSimulator
    fairway: Fairway

    @property
    def data(self) -> Path:
        """The folder that all nodes mount. Like the nodes' own folders it is beside the project: a
        file that disappears while the project's code is copied would make the submission fail."""
        return self.fairway.folder.with_name(f"{self.fairway.folder.name}-data")

    def submit(self, job: Path, *arguments: str) -> Run:
        """Submits a job that must be accepted and returns its run."""
        done = self.fairway.within(
            "submit", job, "--target", "batch-sim", "--json", "--yes", *arguments
        )
        assert done.returncode == 0, done.stderr
        return self.run(json.loads(done.stdout)["run_id"])

    def watch(self, job: Path, *arguments: str) -> tuple[int, str]:
        """Runs a job to its end, and returns its exit code and what was printed."""
        done = self.fairway.within(
            "submit", job, "--target", "batch-sim", "--watch", "--yes", *arguments
        )
        return done.returncode, done.stdout + done.stderr

    def ok(self, *arguments: str | Path) -> str:
        """Returns the output of a command that must succeed."""
        done = self.fairway.within(*arguments)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def run(self, run_id: str) -> Run:
        """Returns a run by its id."""
        return Run(self.fairway.folder / ".fairway" / "runs" / run_id)

    def runs(self) -> list[str]:
        """Returns the ids of the recorded runs."""
        folder = self.fairway.folder / ".fairway" / "runs"
        return sorted(path.name for path in folder.glob("[!.]*"))

    def target(self, **changes: Any) -> None:
        """Writes the target, with these fields in place of the usual ones."""
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
    """A pool that waits for its first node, so that tasks are added but none runs."""

    def many(self, count: int) -> Path:
        """Writes a job of `count` tasks."""
        points = [{"repeat": count}]
        return self.fairway.job("true", template="plain", sweep={"points": points})

    def tasks(self, run: Run) -> list[int]:
        """Returns the sorted numbers of the run's tasks on the service."""
        account: Any = run.engine.account  # type: ignore[attr-defined]
        return sorted(int(task["id"]) for task in account.tasks(run.id, ["id"]))
