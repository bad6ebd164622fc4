"""Runs that wait in Kueue's queues: the reason, the order, and when another target is used."""

import json
import os
from collections.abc import Iterator

import pytest
from program import Fairway, Gate, Signs

from fairway_simulator.kubernetes import KubernetesCluster, __main__, missing

COMMAND = 'echo "$FAIRWAY_RUN" >/mnt/data/signs; read -r _ </mnt/data/gate'
NODE = {"cpu": "30", "memory": "200Gi"}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubernetesCluster]:
    """The stand-in with Kueue: a queue with room for one task, and one that is stopped."""
    if lacking := missing():
        pytest.skip(lacking)
    folder = tmp_path_factory.mktemp("kubernetes")
    with KubernetesCluster(folder, nodes=2, kueue=True, images=("sim*", "python*")) as cluster:
        __main__.prepare(cluster)
        cluster.queue("open", NODE)
        cluster.queue("closed", NODE, stopPolicy="Hold")
        cluster.kubectl("apply", "-f", "-", stdin=json.dumps(URGENT))
        yield cluster


URGENT = {
    "apiVersion": "kueue.x-k8s.io/v1beta2",
    "kind": "WorkloadPriorityClass",
    "metadata": {"name": "urgent"},
    "value": 100,
}


@pytest.fixture(autouse=True)
def cluster(
    running: KubernetesCluster,
    fairway: Fairway,
    signs: Signs,
    gate: Gate,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[None]:
    """A target for each queue; its pods find signs and gate in their mount."""
    targets = []
    for name in ("open", "closed"):
        facts = __main__.target().record()
        access = {**facts["kubernetes"], "queue": name, "priorities": {"high": "urgent"}}
        access["kubeconfig"] = str(running.kubeconfig)
        targets.append({**facts, "name": name, "kubernetes": access})
    (fairway.folder / "fairway.yaml").write_text(json.dumps({"targets": targets}))
    for name, value in running.environment.items():
        monkeypatch.setenv(name, value)
    mount = running.folder / "volumes" / "default" / __main__.CLAIM
    for name, path in (("signs", signs.path), ("gate", gate.path)):
        os.link(path, mount / name)
    yield
    for name in ("signs", "gate"):
        (mount / name).unlink()


def test_kubernetes_queue_reason_counts_jobs_of_higher_priority(
    fairway: Fairway, signs: Signs, gate: Gate
) -> None:
    """The job of higher priority also starts first."""
    job = fairway.job(COMMAND, template="plain")
    to = ("--target", "open")
    first = fairway.submit(job, *to)
    assert signs.lines(1) == [first]
    second = fairway.submit(job, *to)
    waits = fairway.show_waiting(second)["reason"]
    assert waits.startswith("waiting for quota: ")
    assert "insufficient unused quota for cpu in flavor open, 30 more needed" in waits
    urgent = fairway.submit(job, *to, "-s", "priority=high")
    fairway.show_waiting(urgent)
    assert fairway.show(second)["reason"] == f"1 other job comes first; {waits}"
    listed = fairway.within("list", "--state", "queued").stdout
    assert "1 other job comes first" in listed
    gate.open(3)
    assert signs.lines(3) == [first, urgent, second]
    for run in (first, urgent, second):
        assert fairway.within("wait", run).returncode == 0


def test_kubernetes_queue_that_is_stopped_is_passed_over_for_the_next_target(
    fairway: Fairway, signs: Signs, gate: Gate
) -> None:
    gate.open()
    job = fairway.job(COMMAND, template="plain", target=["closed", "open"])
    done = fairway.within("submit", job, "--watch", "--json")
    assert done.returncode == 0, done.stderr
    run = json.loads(done.stdout)["run_id"]
    assert signs.lines(1) == [run]
    facts = fairway.show(run)
    assert (facts["target"], facts["state"]) == ("open", "succeeded")
    assert list(facts["passed_over"]) == ["closed"]
    assert facts["passed_over"]["closed"].startswith("its queue admits nothing: ")
