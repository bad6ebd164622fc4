"""A run on nodes that do not exist yet: Slurm starts them for the run and then deletes them."""

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
    """A cluster with one permanent node, and two cloud nodes that do not exist yet."""
    with SlurmCluster(nodes=1, cloud=2) as cluster:
        for name, value in cluster.environment.items():
            monkeypatch.setenv(name, value)
        targets = [cluster.target_of("cloud")]
        (tmp_path / "fairway.yaml").write_text(json.dumps({"targets": targets}))
        yield cluster


def states(cluster: SlurmCluster) -> set[str]:
    """Returns the states of the cloud nodes; `idle~` is a node that does not exist."""
    return set(cluster.run("sinfo", "-h", "-N", "-p", "cloud", "-o", "%T").split())


def test_slurm_cloud_nodes_are_started_for_a_run_and_deleted_after_it(
    fairway: Fairway, cluster: SlurmCluster
) -> None:
    assert states(cluster) == {"idle~"}
    job = fairway.job("hostname", template="every-node", nodes=2)
    run = fairway.submit(job, "--target", "slurm-sim-cloud")
    until(lambda: fairway.show(run)["reason"] == "its nodes are starting")
    assert fairway.within("wait", run).returncode == 0
    assert sorted(fairway.within("logs", run).stdout.split()) == ["cloud-0", "cloud-1"]
    scale_set = cluster.nodes_of_cloud.scale_set
    until(lambda: states(cluster) == {"idle~"} and not scale_set.instances, lambda: states(cluster))
    assert scale_set.capacity == 0
