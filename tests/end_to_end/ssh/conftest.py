"""A cluster of three hosts on loopback, each with a real sshd, as the target `pair`."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from fairway_simulator.ssh.cluster import SshCluster, missing


@pytest.fixture
def cluster(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[SshCluster]:
    """The hosts n1, n2 and n3, outside of the test's folder, from which `fairway` finds them."""
    if lacking := missing():
        pytest.skip(lacking)
    names = ["n1", "n2", "n3"]
    with SshCluster(tmp_path_factory.mktemp("cluster"), names) as cluster:
        for name, value in cluster.environment.items():
            monkeypatch.setenv(name, value)
        project = json.dumps({"targets": [cluster.target()]})
        (tmp_path / "fairway.yaml").write_text(project, encoding="utf-8")
        yield cluster
