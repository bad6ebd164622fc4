"""A Batch account on loopback with real nodes, and the program `fairway` set up for it."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from batch_service import Batch, Waiting
from program import Fairway

from fairway_runner.engines.batch.engine import BatchEngine
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


@pytest.fixture
def make_batch(
    tmp_path_factory: pytest.TempPathFactory,
    fairway: Fairway,
    storage: StorageAccess,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Callable[..., Batch]]:
    """Makes a Batch account with the given options of `BatchSimulator`."""
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


@pytest.fixture
def waiting(make_batch: Callable[..., Batch]) -> Waiting:
    """An account whose pool has no nodes yet and scales by itself."""
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
