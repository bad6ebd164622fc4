"""Jobs for several targets that are reached by ssh: the first has no nodes, or no host."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from fairway_simulator.ssh.cluster import SshCluster

pytestmark = pytest.mark.nightly


@pytest.fixture
def ran(fairway: Any, cluster: SshCluster) -> Path:
    """Where jobs say that they ran. Beside the cluster there is one of its main host alone, in the
    same shared folder, and one whose host is not there."""
    pair = cluster.target()
    alone = {**pair, "name": "alone"}
    gone = {**pair, "name": "gone", "ssh": {**pair["ssh"], "host": "gone.invalid"}}
    project = json.dumps({"targets": [pair, alone, gone]})
    (fairway.folder / "fairway.yaml").write_text(project, encoding="utf-8")
    path: Path = fairway.folder.with_name(f"{fairway.folder.name}-ran")
    return path


def test_a_cluster_with_too_few_nodes_up_is_passed_over(fairway: Any, ran: Path) -> None:
    job = fairway.job(f"echo $FAIRWAY_NODES >>{ran}", template="plain", nodes=2)
    done = fairway("submit", job, "-t", "alone,pair", "--run-id", "both", "--watch")
    assert done.returncode == 0, done.stdout + done.stderr
    why = "the job needs 2 nodes, and 1 are up"
    assert f"`alone` was passed over: {why}" in done.stderr
    assert ran.read_text() == "2\n"
    facts = fairway.show("both")
    assert (facts["target"], facts["state"]) == ("pair", "succeeded")
    assert facts["passed_over"] == {"alone": why}


def test_a_host_that_cannot_be_reached_is_passed_over(fairway: Any, ran: Path) -> None:
    job = fairway.job(f"echo once >>{ran}", template="plain")
    done = fairway("submit", job, "-t", "gone", "-t", "pair", "--watch", "--deadline", "2s")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "`gone` was passed over: " in done.stderr
    assert ran.read_text() == "once\n"
