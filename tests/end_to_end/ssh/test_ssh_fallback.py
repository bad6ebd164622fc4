"""Runs on several targets that are reached by ssh, of which the first has no nodes, or no host."""

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


def test_a_cluster_with_too_few_nodes_up_is_left(fairway: Any, ran: Path) -> None:
    job = fairway.job(f"echo $FAIRWAY_NODES >>{ran}", template="plain", nodes=2)
    run = fairway.submit(job, "-t", "alone,pair")
    waited = fairway("wait", run)
    assert waited.returncode == 0, waited.stderr
    assert f"{run} moves from alone to pair: waits for 2 nodes" in waited.stderr
    assert ran.read_text() == "2\n"
    facts = fairway.show(run)
    assert (facts["target"], facts["state"]) == ("pair", "succeeded")
    assert [each["target"] for each in facts["tried"]] == ["alone", "pair"]


def test_a_host_that_cannot_be_reached_is_passed_over(fairway: Any, ran: Path) -> None:
    job = fairway.job(f"echo once >>{ran}", template="plain")
    done = fairway("submit", job, "-t", "gone", "-t", "pair", "--watch", "--deadline", "2s")
    assert done.returncode == 0, done.stdout + done.stderr
    assert " moves from gone to pair: " in done.stderr
    assert ran.read_text() == "once\n"
