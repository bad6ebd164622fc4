"""A Slurm cluster of three nodes on this machine, as the target `slurm-sim`."""

from __future__ import annotations

import json
import os
import select
from typing import TYPE_CHECKING

import pytest

from fairway_simulator.slurm import SlurmCluster, missing

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_PATIENCE = 300.0  # seconds; only a hang takes so long


class Signs:
    """A named pipe in which programs on any node say how far they are, a line each."""

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        self.path = path
        # Open for writing too, so that it does not end when nobody else has it open.
        self._descriptor = os.open(path, os.O_RDWR | os.O_NONBLOCK)
        self._text = b""

    def __str__(self) -> str:
        return str(self.path)

    def lines(self, count: int) -> list[str]:
        """Waits until there are `count` lines in all."""
        while self._text.count(b"\n") < count:
            ready = select.select([self._descriptor], [], [], _PATIENCE)[0]
            assert ready, f"nothing came after {self._text!r}"
            self._text += os.read(self._descriptor, 65536)
        return self._text.decode().splitlines()

    def close(self) -> None:
        """Stops listening."""
        os.close(self._descriptor)


@pytest.fixture
def signs(tmp_path: Path) -> Iterator[Signs]:
    """What programs say through the named pipe `signs` in the test's folder."""
    signs = Signs(tmp_path / "signs")
    yield signs
    signs.close()


@pytest.fixture
def slurm_needed() -> None:
    """Leaves a test out where there is no Slurm, but not where all has to be there."""
    if lacking := missing():
        pytest.skip(lacking)


@pytest.fixture
def slurm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, slurm_needed: None
) -> Iterator[SlurmCluster]:
    """The cluster; `fairway` finds it from the test's folder."""
    with SlurmCluster(nodes=3) as cluster:
        for name, value in cluster.environment.items():
            monkeypatch.setenv(name, value)
        project = json.dumps({"targets": [cluster.target]})
        (tmp_path / "fairway.yaml").write_text(project, encoding="utf-8")
        yield cluster
