"""Runs on an API server that fails or refuses: each object is created once."""

import io
import json
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from api_server import Cluster
from targets import target_of
from waiting import until

from fairway_agent import job_facts, state_files
from fairway_agent.control import Part
from fairway_agent.kubernetes import api, nodes, objects, runs, submit
from fairway_agent.kubernetes.api import Api
from fairway_agent.kubernetes.controller import Controller, ask_again
from fairway_agent.shared.reports import (
    CancelRequest,
    NodesRequest,
    RunRequest,
    RunsRequest,
    StatesRequest,
)
from fairway_agent.state_files import TaskState
from fairway_core.kubernetes import documents, head
from fairway_simulator.kubernetes import Fault, KubernetesCluster, missing

pytestmark = pytest.mark.integration

TARGET = target_of("kubernetes")


@pytest.fixture(scope="module")
def cluster_api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubernetesCluster]:
    """Yields the stand-in without nodes: objects stay as they were created."""
    if lacking := missing():
        pytest.skip(lacking)
    folder = tmp_path_factory.mktemp("api")
    with KubernetesCluster(folder, nodes=0, private=False) as found:
        found.kubectl("apply", "-f", "-", stdin=documents.text(head.objects(TARGET)))
        known = json.loads(found.kubeconfig_of("fairway-head").read_text())
        (folder / "token").write_text(known["users"][0]["user"]["token"])
        (folder / "namespace").write_text(found.namespace)
        (folder / "ca.crt").write_bytes((folder / "ca.pem").read_bytes())
        yield found


@pytest.fixture(autouse=True)
def head_api(cluster_api: KubernetesCluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[Api]:
    """Yields the API as the head pod reaches it, without pauses between its tries."""
    host, _, port = cluster_api.url.removeprefix("https://").partition(":")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", host)
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", port)
    monkeypatch.setenv("FAIRWAY_SERVICE_ACCOUNT", str(cluster_api.folder))
    clock = SimpleNamespace(monotonic=time.monotonic, sleep=lambda _: None)
    monkeypatch.setattr(api, "time", clock)
    found = Api()
    for module in (submit, runs):
        monkeypatch.setattr(module, "Api", lambda: found)
    cluster_api.faults.hits.clear()
    yield found
    cluster_api.faults.clear()
    found.close()


def jobs(head_api: Api, folder: Path) -> dict[str, str]:
    """Returns the uids of the run's Jobs by name: a new Job has another uid."""
    found = objects.jobs_of(head_api, folder)
    return {each["metadata"]["name"]: each["metadata"]["uid"] for each in found}


def live(head_api: Api, cluster: Cluster, run: str) -> None:
    """Submits a run with every kind of part and brings it to its end."""
    folder = cluster.bring(run, [1, 2, 1, 1], last=True)
    submit.submit(cluster.shared, cluster.request(run, key="-----BEGIN"), io.BytesIO())
    before = jobs(head_api, folder)
    assert sorted(before) == [f"{run}-0-0", f"{run}-0-1", f"{run}-0-controller"]
    runs.states(cluster.shared, StatesRequest({run: RunRequest()}), io.BytesIO())
    for task in range(4):
        (folder / "tasks" / str(task)).mkdir(parents=True)
        ended = TaskState("succeeded", exit_code=0, started=1.0, ended=2.0)
        state_files.write(folder / "tasks" / str(task), ended)
    assert Controller(head_api, folder, 0, job_facts.read_shared_plan(folder)).step()
    after = jobs(head_api, folder)
    assert sorted(after) == [f"{run}-0-{part}" for part in (0, 1, 2, "controller")]
    assert after.items() >= before.items()
    found = runs.states(cluster.shared, StatesRequest({run: RunRequest()}), io.BytesIO())
    report = found.runs[run]
    assert report.state.tasks == {"succeeded": 4, "queued": 1}
    runs.cancel(cluster.shared, CancelRequest(run, 0), io.BytesIO())
    runs.remove(cluster.shared, RunsRequest(remove=run), io.BytesIO())
    # The API server forgets a Job once its pods are gone.
    while head_api.list("jobs", objects.selector(run)):
        time.sleep(0.01)


@pytest.mark.parametrize("applied", [False, True], ids=["", "once it is done"])
@pytest.mark.parametrize("kind", ["status", "cut"])
def test_kubernetes_submit_under_api_faults_creates_each_object_once(
    cluster: Cluster, cluster_api: KubernetesCluster, head_api: Api, kind: Any, applied: bool
) -> None:
    cluster_api.faults.add(Fault(kind, status=504, applied=applied, share=0.3))
    for number in range(2):
        live(head_api, cluster, f"job-{number}")
    assert cluster_api.faults.hits


def test_kubernetes_health_names_a_right_that_an_earlier_release_did_not_grant(
    cluster: Cluster, cluster_api: KubernetesCluster, head_api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nodes, "Api", lambda: head_api)
    request = NodesRequest(health=True, rights=head.rights(TARGET))

    def lacks() -> tuple[str, ...]:
        found = nodes.nodes(cluster.shared, request, io.BytesIO()).health
        return found.lacks

    assert lacks() == ()
    [role] = [each for each in head.objects(TARGET) if each["kind"] == "Role"]
    before = [rule for rule in role["rules"] if rule["resources"] != ["events"]]
    for rules, lacking in ((before, ("list events",)), (role["rules"], ())):
        text = documents.text([{**role, "rules": rules}])
        cluster_api.kubectl("apply", "-f", "-", stdin=text)
        assert lacks() == lacking


def test_kubernetes_pod_that_waits_too_long_is_released_from_its_node_request(
    cluster_api: KubernetesCluster, head_api: Api
) -> None:
    notes = {objects.REQUESTED: "job-a-nodes-1", "kept": "yes"}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "waits", "labels": {objects.JOB: "job-a-0-0"}, "annotations": notes},
        "spec": {"containers": [{"name": "task", "image": "a"}]},
    }
    cluster_api.kubectl("apply", "-f", "-", stdin=json.dumps(pod))

    def found() -> dict[str, Any]:
        (one,) = head_api.list("pods", {"labelSelector": f"{objects.JOB}=job-a-0-0"})
        return one

    until(lambda: objects.unscheduled(found()))
    seen = objects.Objects({"job-a-0-0": {}}, {"job-a-0-0": [found()]})
    part, began = Part("tasks", 0, [0], 1, 8, job="job-a-0-0"), time.time()
    seen.jobs["job-a-0-0"] = {"status": {"startTime": found()["metadata"]["creationTimestamp"]}}
    ask_again(head_api, seen, [part], began + 1740)
    assert found()["metadata"]["annotations"].items() >= notes.items()
    ask_again(head_api, seen, [part], began + 1860)
    ask_again(head_api, seen, [replace(part, job="gone")], began + 1860)
    left = found()["metadata"]["annotations"]
    assert (objects.REQUESTED in left, left["kept"]) == (False, "yes")
    cluster_api.kubectl("delete", "pod", "waits")
