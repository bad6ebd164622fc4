"""A cluster of three hosts on loopback, each with a real sshd, as the target `pair`."""

from __future__ import annotations

import json
import os
import select
from typing import TYPE_CHECKING

import pytest

from fairway_simulator.ssh.cluster import SshCluster, missing

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


_PATIENCE = 300.0  # seconds; only a hang takes so long


class Signs:
    """A named pipe in which programs on any host say how far they are, a line each."""

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
            assert self._read(_PATIENCE), f"nothing came after {self._text!r}"
        return self._text.decode().splitlines()

    def all(self) -> list[str]:
        """What was said up to now."""
        while self._read(0):
            pass
        return self._text.decode().splitlines()

    def _read(self, seconds: float) -> bool:
        ready = bool(select.select([self._descriptor], [], [], seconds)[0])
        if ready:
            self._text += os.read(self._descriptor, 65536)
        return ready

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
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SshCluster]:
    """The hosts n1, n2 and n3; `fairway` finds them from the test's folder."""
    if lacking := missing():
        pytest.skip(lacking)
    names = ["n1", "n2", "n3"]
    with SshCluster(tmp_path / "cluster", names) as cluster:
        for name, value in cluster.environment.items():
            monkeypatch.setenv(name, value)
        project = json.dumps({"targets": [cluster.target()]})
        (tmp_path / "fairway.yaml").write_text(project, encoding="utf-8")
        yield cluster
