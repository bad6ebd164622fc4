"""A run on nodes that are not there yet: Slurm starts them for it, and deletes them after it."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from program import Fairway
from waiting import until

from fairway_simulator.slurm import SlurmCluster


@pytest.fixture
def cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, slurm_needed: None
) -> Iterator[SlurmCluster]:
    """One node that stays, and two of the cloud, which are not there."""
    with SlurmCluster(nodes=1, cloud=2) as cluster:
        for name, value in cluster.environment.items():
            monkeypatch.setenv(name, value)
        targets = [cluster.target_of("cloud")]
        (tmp_path / "fairway.yaml").write_text(json.dumps({"targets": targets}))
        yield cluster


def states(cluster: SlurmCluster) -> set[str]:
    """States of the nodes of the cloud; `idle~` is one that is not there."""
    return set(cluster.run("sinfo", "-h", "-N", "-p", "cloud", "-o", "%T").split())


def test_nodes_come_for_a_run_and_go_after_it(fairway: Fairway, cluster: SlurmCluster) -> None:
    assert states(cluster) == {"idle~"}
    job = fairway.job("hostname", template="every-node", nodes=2)
    run = fairway.submit(job, "--target", "slurm-sim-cloud")
    until(lambda: fairway.show(run)["reason"] == "its nodes are starting")
    assert fairway.within("wait", run).returncode == 0
    assert sorted(fairway.within("logs", run).stdout.split()) == ["cloud-0", "cloud-1"]
    scale_set = cluster.nodes_of_cloud.scale_set
    until(lambda: states(cluster) == {"idle~"} and not scale_set.instances, lambda: states(cluster))
    assert scale_set.capacity == 0
