"""Pods that Kubernetes takes away: others take their places, and the run ends right."""

from __future__ import annotations

import json
import os
import re
from typing import TYPE_CHECKING, Any

import pytest

from fairway_simulator.kubernetes import KubernetesCluster, missing, prepared

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conftest import Fairway, Pipe

# The first attempt says that it is there and waits for its end; the next one ends by itself.
COMMAND = """echo "attempt $FAIRWAY_ATTEMPT on $FAIRWAY_NODE_RANK"
if [ "$FAIRWAY_ATTEMPT" = 0 ]; then
    exec 9>/mnt/data/pipe
    echo "$FAIRWAY_NODE_RANK" >&9
    sleep 3600
fi"""
INDEX = "batch.kubernetes.io/job-completion-index"


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubernetesCluster]:
    """The stand-in with a head pod, for all tests here."""
    if lacking := missing():
        if os.environ.get("CI") == "true":
            pytest.fail(lacking)
        pytest.skip(lacking)
    folder = tmp_path_factory.mktemp("kubernetes")
    with KubernetesCluster(folder, nodes=2, images=("sim*", "python*"), backoff=0.1) as cluster:
        prepared.prepare(cluster)
        yield cluster


@pytest.fixture
def cluster(
    running: KubernetesCluster, fairway: Fairway, pipe: Pipe
) -> Iterator[KubernetesCluster]:
    """The stand-in, declared in the test's folder; its pods find the pipe in their mount."""
    targets = {"targets": [prepared.target().record()]}
    (fairway.folder / "fairway.yaml").write_text(json.dumps(targets))
    prepared.publish(running, fairway.folder)
    there = running.folder / "volumes" / "default" / prepared.CLAIM / "pipe"
    os.link(pipe.path, there)
    yield running
    there.unlink()


def pods(cluster: KubernetesCluster, run: str) -> dict[int, dict[str, Any]]:
    """The run's pods that are not ending, by index."""
    listed = cluster.kubectl("get", "pods", "-l", f"fairway.dev/run={run}", "-o", "json")
    metadata = [each["metadata"] for each in json.loads(listed)["items"]]
    there = [each for each in metadata if "deletionTimestamp" not in each]
    return {int(each["annotations"][INDEX]): each for each in there}


def evict(cluster: KubernetesCluster, pod: str) -> None:
    """As a node that is drained does it."""
    about = {"name": pod, "namespace": cluster.namespace}
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": about}
    path = f"/api/v1/namespaces/{cluster.namespace}/pods/{pod}/eviction"
    cluster.kubectl("create", "--raw", path, "-f", "-", stdin=json.dumps(body))


@pytest.mark.parametrize(
    ("nodes", "index"),
    [
        pytest.param(1, 0, id="the only pod"),
        pytest.param(2, 0, id="the main pod"),
        pytest.param(2, 1, id="a worker"),
    ],
)
def test_the_task_begins_again_with_another_pod(
    cluster: KubernetesCluster, fairway: Fairway, pipe: Pipe, nodes: int, index: int
) -> None:
    job = fairway.job(COMMAND, template="every-node", processes_per_node=1, nodes=nodes)
    run = fairway.submit(job, "--target", "kubernetes-sim")
    assert sorted(pipe.lines(nodes)) == [str(rank) for rank in range(nodes)]
    before = pods(cluster, run)
    assert sorted(before) == [*range(nodes)]
    evict(cluster, before[index]["name"])
    waited = fairway("wait", run)
    logs = fairway("logs", run).stdout
    assert waited.returncode == 0, waited.stdout + waited.stderr + logs
    assert fairway.show(run)["state"] == "succeeded"
    said = sorted(re.findall(r"^attempt \d+ on \d+$", logs, re.MULTILINE))
    assert said == [f"attempt {attempt} on {rank}" for attempt in (0, 1) for rank in range(nodes)]
    assert before[index]["uid"] not in {each["uid"] for each in pods(cluster, run).values()}
