"""An API server made of a few dictionaries, for tests of the requests to it."""

from pathlib import Path

import pytest
from api_server import Cluster, Server

from fairway_agent.kubernetes import runs, submit


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture(autouse=True)
def reached(monkeypatch: pytest.MonkeyPatch, server: Server) -> None:
    for module in (submit, runs):
        monkeypatch.setattr(module, "Api", lambda: server)


@pytest.fixture
def cluster(tmp_path: Path, server: Server) -> Cluster:
    return Cluster(tmp_path, server)
