"""A Slurm cluster of three nodes on this machine, as the target `slurm-sim`."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from fairway_simulator.slurm import SlurmCluster, missing

_BY_PARENTS = "proctrack/linuxproc"


@pytest.fixture
def slurm_needed() -> None:
    """A requirement: skips the test without Slurm, which is a failure in CI."""
    if lacking := missing():
        pytest.skip(lacking)


@pytest.fixture
def slurm(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    slurm_needed: None,
    request: pytest.FixtureRequest,
) -> Iterator[SlurmCluster]:
    """The cluster; `fairway` finds it from the test's folder. A parameter is how Slurm finds the
    processes of a step."""
    with SlurmCluster(nodes=3, tracking=getattr(request, "param", _BY_PARENTS)) as cluster:
        for name, value in cluster.environment.items():
            monkeypatch.setenv(name, value)
        project = json.dumps({"targets": [cluster.target]})
        (tmp_path / "fairway.yaml").write_text(project, encoding="utf-8")
        yield cluster
