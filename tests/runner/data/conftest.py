"""A storage account of Azurite, and a target that has it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from fairway_simulator.batch.azurite import Azurite, AzuriteMissing

PROJECT = """\
targets:
  - name: sim
    engine: batch
    nodes: {min: 0, max: 4}
    storage: {containers: [datasets, outputs]}
    batch: {pool: sim}
"""


@pytest.fixture(scope="session")
def account(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The connection string of an account with the containers datasets and outputs."""
    try:
        azurite = Azurite(tmp_path_factory.mktemp("azurite"), ["datasets", "outputs"])
    except AzuriteMissing as missing:
        pytest.skip(f"needs Azurite: {missing}")
    yield azurite.access.connection_string
    azurite.stop()


@pytest.fixture
def folder(tmp_path: Path, account: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, in which the target `sim` is declared."""
    (tmp_path / "fairway.yaml").write_text(PROJECT)
    monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", account)
    monkeypatch.chdir(tmp_path)
    return tmp_path
