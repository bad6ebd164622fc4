"""Runs with evicted pods, endless streams or a killed client still end as they should."""

import json
import os
import re
import shlex
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from program import Fairway, Pipe
from waiting import until

from fairway_simulator.kubernetes import Fault, KubernetesCluster, __main__, missing

# The first attempt reports that it runs and waits for SIGTERM, on which each rank saves and exits
# with 0. The next attempt exits by itself.
COMMAND = """echo "attempt $FAIRWAY_ATTEMPT on $FAIRWAY_NODE_RANK"
if [ "$FAIRWAY_ATTEMPT" = 0 ]; then
    trap 'trap : TERM; echo "saved on $FAIRWAY_NODE_RANK"; exit 0' TERM
    exec 9>/mnt/data/pipe
    echo "$FAIRWAY_NODE_RANK" >&9
    sleep 3600
fi"""
INDEX = "batch.kubernetes.io/job-completion-index"


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubernetesCluster]:
    """The stand-in with a head pod, shared by all tests of this module."""
    if lacking := missing():
        pytest.skip(lacking)
    folder = tmp_path_factory.mktemp("kubernetes")
    with KubernetesCluster(
        folder, nodes=2, kueue=True, images=("sim*", "python*"), backoff=0.1
    ) as cluster:
        __main__.prepare(cluster)
        cluster.queue("sim", cluster.capacity())
        yield cluster


@pytest.fixture
def cluster(
    running: KubernetesCluster, fairway: Fairway, pipe: Pipe
) -> Iterator[KubernetesCluster]:
    """The stand-in, declared in the test's folder; its pods find the pipe in their mount."""
    target = __main__.target().record()
    queued = {**target, "name": "queued", "kubernetes": {**target["kubernetes"], "queue": "sim"}}
    (fairway.folder / "fairway.yaml").write_text(json.dumps({"targets": [target, queued]}))
    __main__.publish(running, fairway.folder)
    there = running.folder / "volumes" / "default" / __main__.CLAIM / "pipe"
    os.link(pipe.path, there)
    yield running
    running.faults.clear()
    there.unlink()


def pods(cluster: KubernetesCluster, run: str) -> dict[int, dict[str, Any]]:
    """Returns the metadata of the run's pods that are not being deleted, by index."""
    listed = cluster.kubectl(
        "get", "pods", "-l", f"fairway.dev/run={run},fairway.dev/part!=controller", "-o", "json"
    )
    metadata = [each["metadata"] for each in json.loads(listed)["items"]]
    there = [each for each in metadata if "deletionTimestamp" not in each]
    return {int(each["annotations"][INDEX]): each for each in there}


def evict(cluster: KubernetesCluster, pod: str) -> None:
    """Evicts a pod as draining its node does."""
    about = {"name": pod, "namespace": cluster.namespace}
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": about}
    path = f"/api/v1/namespaces/{cluster.namespace}/pods/{pod}/eviction"
    cluster.kubectl("create", "--raw", path, "-f", "-", stdin=json.dumps(body))


def delete(cluster: KubernetesCluster, pod: str) -> None:
    """Deletes a pod as a user does: it gets no condition that gives a reason."""
    cluster.kubectl("delete", "pod", pod, "--wait=false")


@pytest.mark.parametrize(
    ("target", "nodes", "index", "take"),
    [
        pytest.param("kubernetes-sim", 1, 0, evict, id="the only pod"),
        pytest.param(
            *("queued", 2, 0, evict),
            id="the main pod of several that Kueue has admitted",
            marks=pytest.mark.nightly,
        ),
        pytest.param("queued", 2, 1, evict, id="a worker beside it"),
        pytest.param("kubernetes-sim", 1, 0, delete, id="the only pod, which somebody deletes"),
        pytest.param(
            *("queued", 2, 1, delete),
            id="a worker that somebody deletes",
            marks=pytest.mark.nightly,
        ),
    ],
)
def test_kubernetes_task_restarts_in_a_new_pod_after_eviction_or_deletion(
    cluster: KubernetesCluster,
    fairway: Fairway,
    pipe: Pipe,
    target: str,
    nodes: int,
    index: int,
    take: Callable[[KubernetesCluster, str], None],
) -> None:
    job = fairway.job(
        COMMAND,
        template="every-node",
        processes_per_node=1,
        nodes=nodes,
        checkpoint={"grace": "60s"},
    )
    run = fairway.submit(job, "--target", target)
    assert sorted(pipe.lines(nodes)) == [str(rank) for rank in range(nodes)]
    before = pods(cluster, run)
    assert sorted(before) == [*range(nodes)]
    take(cluster, before[index]["name"])
    waited = fairway.within("wait", run)
    logs = fairway.within("logs", run).stdout
    assert waited.returncode == 0, waited.stdout + waited.stderr + logs
    shown = fairway.show(run)
    assert (shown["state"], shown["task_list"][0]["failures_by_cause"]) == (
        "succeeded",
        {"preemption": 1},
    )
    saved = sorted(re.findall(r"saved on (\d+)$", logs, re.MULTILINE))
    assert saved == [str(rank) for rank in range(nodes)], logs
    said = sorted(re.findall(r"^attempt \d+ on \d+$", logs, re.MULTILINE))
    assert said == [f"attempt {attempt} on {rank}" for attempt in (0, 1) for rank in range(nodes)]
    assert before[index]["uid"] not in {each["uid"] for each in pods(cluster, run).values()}


@pytest.mark.parametrize("words", [("cancel",), ("clean", "--yes")])
def test_kubernetes_run_without_its_folder_is_lost_and_cancel_or_clean_deletes_jobs(
    cluster: KubernetesCluster, fairway: Fairway, pipe: Pipe, words: tuple[str, ...]
) -> None:
    command = "echo up >/mnt/data/pipe; sleep 3600"
    run = fairway.submit(fairway.job(command, template="plain"), "--target", "kubernetes-sim")
    pipe.lines(1)
    volume = cluster.folder / "volumes" / "default" / __main__.CLAIM
    (folder,) = volume.glob(f"**/runs/{run}")
    folder.rename(volume / "removed")  # its pod writes there meanwhile
    shutil.rmtree(volume / "removed", ignore_errors=True)
    shown = fairway.show(run)
    assert (shown["state"], shown["reason"]) == ("lost", "its folder is gone")
    done = fairway.within(words[0], run, *words[1:])
    assert done.returncode == 0, done.stderr
    kinds = ("jobs,pods", "-l", f"fairway.dev/run={run}")
    assert cluster.kubectl("get", *kinds, "-o", "name") == ""
    assert not folder.exists()
    if words == ("cancel",):
        assert done.stdout == f"{run} cancelled\n"


@pytest.mark.parametrize("nodes", [1, pytest.param(2, marks=pytest.mark.nightly)])
def test_kubernetes_job_that_was_suspended_continues_with_another_attempt(
    cluster: KubernetesCluster, fairway: Fairway, pipe: Pipe, nodes: int
) -> None:
    """Kueue suspends a Job to preempt it. Its pods are terminated and count as failed."""
    job = fairway.job(
        COMMAND,
        template="every-node",
        processes_per_node=1,
        nodes=nodes,
        checkpoint={"grace": "60s"},
    )
    run = fairway.submit(job, "--target", "kubernetes-sim")
    assert len(pipe.lines(nodes)) == nodes
    cluster.kubectl("patch", "job", f"{run}-0-0", "-p", '{"spec": {"suspend": true}}')
    until(lambda: fairway.show(run)["state"] == "queued")
    reason = fairway.show_waiting(run)["reason"]
    assert reason.startswith("somebody has suspended its Job; to resume it: kubectl -n default ")
    [words] = re.findall(r"kubectl (.*)$", reason)
    cluster.kubectl(*shlex.split(words))
    waited = fairway.within("wait", run)
    logs = fairway.within("logs", run).stdout
    assert waited.returncode == 0, waited.stdout + waited.stderr + logs
    shown = fairway.show(run)
    assert (shown["state"], shown["task_list"][0]["failures_by_cause"]) == (
        "succeeded",
        {"preemption": 1},
    )
    said = sorted(re.findall(r"^attempt \d+ on \d+$", logs, re.MULTILINE))
    assert said == [f"attempt {attempt} on {rank}" for attempt in (0, 1) for rank in range(nodes)]


def test_kubernetes_watch_survives_endless_streams_and_a_replaced_head_pod(
    cluster: KubernetesCluster, fairway: Fairway, pipe: Pipe
) -> None:
    """A command that follows the run still prints its end."""
    cluster.faults.add(Fault("endless"))
    job = fairway.job("echo begun >/mnt/data/pipe; read line </mnt/data/gate; echo $line")
    gate = cluster.folder / "volumes" / "default" / __main__.CLAIM / "gate"
    os.mkfifo(gate)
    watching = fairway.start("submit", job, "--target", "kubernetes-sim", "--watch")
    assert pipe.lines(1) == ["begun"]
    hits = cluster.faults.hits["endless"]
    until(lambda: cluster.faults.hits["endless"] > hits)
    # The following command must not wait for a stream of a deleted pod.
    cluster.faults.clear()
    cluster.faults.add(Fault("cut", path="/exec", count=1))
    until(lambda: cluster.faults.hits.get("cut"))
    cluster.kubectl("delete", "pod", "-l", "app=fairway-head", "--force", "--wait=false")
    cluster.kubectl("rollout", "status", "deployment/fairway-head")
    with gate.open("w") as stream:
        stream.write("over\n")
    said, complaints = watching.communicate(timeout=300)
    assert watching.returncode == 0, said + complaints
    assert "over\n" in said
    gate.unlink()


def test_kubernetes_submit_killed_at_each_call_starts_the_run_once(
    cluster: KubernetesCluster, fairway: Fairway, pipe: Pipe
) -> None:
    """The submission of one run is killed at one call after another."""
    job = fairway.job("echo begun >/mnt/data/pipe")
    words: tuple[str | Path, ...] = (
        "submit",
        job,
        "--target",
        "kubernetes-sim",
        "--run-id",
        "job-k",
    )
    kills = 0
    while True:
        before = cluster.faults.hits.get("timeout", 0)
        cluster.faults.add(Fault("timeout", path="/exec", skip=kills, count=1))
        process = fairway.start(*words, start_new_session=True)
        until(lambda: cluster.faults.hits.get("timeout", 0) > before or process.poll() is not None)  # noqa: B023
        cluster.faults.clear()
        if process.poll() is not None:
            break
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        kills += 1
    assert process.returncode == 0, process.communicate()
    assert kills >= 3
    assert fairway.within("wait", "job-k").returncode == 0
    assert pipe.rest() == "begun\n"
    [found] = json.loads(
        cluster.kubectl(
            "get", "jobs", "-l", "fairway.dev/run=job-k,fairway.dev/part!=controller", "-o", "json"
        )
    )["items"]
    assert found["status"]["succeeded"] == 1
