"""The targets over which the tests of every engine run."""

from __future__ import annotations

import os
import secrets
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from conftest import Fairway


@dataclass(frozen=True)
class Place:
    """A target that is there: its name, the `fairway.yaml` that declares it, the variables that
    commands need, and what can be expected of it. `timeout` is the shortest that it keeps."""

    name: str
    engine: str
    nodes: int
    project: str = ""
    environment: dict[str, str] = field(default_factory=dict)
    timeout: str = "2s"
    has_mpi: bool = True

    @staticmethod
    def new_id(name: str) -> str:
        """A run's id that no other test has."""
        return f"{name}-{secrets.token_hex(4)}"


@contextmanager
def local(folder: Path) -> Iterator[Place]:
    """This machine."""
    yield Place("local", "local", nodes=1)


PLACES = {"local": local}

# Only root can give each make-believe node a host name of its own, which MPI needs.
IS_ROOT = os.geteuid() == 0


@pytest.fixture(scope="session", params=PLACES)
def running(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Place]:
    """A target, for as long as tests want it."""
    with PLACES[request.param](tmp_path_factory.mktemp(request.param)) as place:
        yield place


@pytest.fixture
def place(running: Place, fairway: Fairway, monkeypatch: pytest.MonkeyPatch) -> Place:
    """The target, declared in the test's folder."""
    if running.project:
        (fairway.folder / "fairway.yaml").write_text(running.project)
    for name, value in running.environment.items():
        monkeypatch.setenv(name, value)
    return running
