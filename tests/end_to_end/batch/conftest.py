"""A Batch account on loopback with real nodes, and the program `fairway` set up for it."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from program import Fairway

from fairway_runner.engines.batch.engine import BatchEngine
from fairway_runner.runs.store import Run
from fairway_simulator.batch import BatchSimulator, StorageAccess
from fairway_simulator.batch.azurite import Azurite, program
from fairway_simulator.batch.simulator import IDENTITY


@pytest.fixture(scope="session")
def storage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StorageAccess]:
    """A storage account, with the containers of a target."""
    if program() is None:
        pytest.skip("Azurite is missing: npm install --prefix .venv/azurite azurite")
    azurite = Azurite(tmp_path_factory.mktemp("azurite"), ("datasets", "outputs", "code"))
    yield azurite.access
    azurite.stop()


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
        self.targets(changes)

    def targets(self, *changes: dict[str, Any]) -> None:
        """Writes a target for each of these fields."""
        usual = {
            "name": "batch-sim",
            "engine": "batch",
            "nodes": {"min": 0, "max": 4},
            "mounts": {"data": str(self.data)},
            "storage": {"containers": ["datasets", "outputs", "code"]},
            "batch": {"pool": "sim", "identity": IDENTITY},
        }
        made = {"targets": [{**usual, **each} for each in changes]}
        (self.fairway.folder / "fairway.yaml").write_text(json.dumps(made))


@pytest.fixture
def make_batch(
    tmp_path_factory: pytest.TempPathFactory,
    fairway: Fairway,
    storage: StorageAccess,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Callable[..., Batch]]:
    """Makes the service with these options of `BatchSimulator`."""
    services: list[BatchSimulator] = []

    def make(**options: Any) -> Batch:
        usual = {"nodes": 3, "storage_access": storage}
        service = BatchSimulator(tmp_path_factory.mktemp("sim"), **{**usual, **options})
        services.append(service.start())
        for name, value in service.environment().items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr(BatchEngine, "pause", 0.1)
        batch = Batch(service, fairway)
        batch.data.mkdir(exist_ok=True)
        batch.data.chmod(0o1777)  # as Fairway's nodes mount it
        batch.target()
        return batch

    yield make
    for service in services:
        service.stop()


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


@pytest.fixture
def waiting(make_batch: Callable[..., Batch]) -> Waiting:
    """An account whose pool has no nodes, and may get some."""
    made = make_batch(nodes=0)
    formula = "$TargetDedicatedNodes = 0;"
    made.service.add_pool("waiting", enableAutoScale=True, autoScaleFormula=formula)
    waiting = Waiting(made.service, made.fairway)
    waiting.target(batch={"pool": "waiting", "identity": IDENTITY})
    return waiting


@pytest.fixture
def batch(make_batch: Callable[..., Batch]) -> Batch:
    """An account with a pool of three nodes."""
    return make_batch()


@dataclass
class Two(Batch):
    """The targets `full`, whose pool gets no nodes, and `free`."""

    def job(self, **fields: Any) -> Path:
        """A job that adds a line to a file for each time that it runs."""
        line = 'echo "$FAIRWAY_RUN $AZ_BATCH_POOL_ID" >> ' + str(self.data / "ran")
        return self.fairway.job(line, template="plain", **fields)

    def ran(self) -> list[str]:
        """The runs whose tasks have begun, with the pool of each."""
        path = self.data / "ran"
        return path.read_text().splitlines() if path.exists() else []


@pytest.fixture
def two(make_batch: Callable[..., Batch]) -> Two:
    """An account with a pool that cannot grow, and one with three nodes."""
    made = make_batch()
    formula = "$TargetDedicatedNodes = 2;"
    made.service.add_pool("large", enableAutoScale=True, autoScaleFormula=formula)
    made.service.limit_pool(0, pool="large")
    two = Two(made.service, made.fairway)
    pools = {"full": {"pool": "large"}, "free": {"pool": "sim"}}
    two.targets(
        *({"name": n, "batch": {**pool, "identity": IDENTITY}} for n, pool in pools.items())
    )
    return two
