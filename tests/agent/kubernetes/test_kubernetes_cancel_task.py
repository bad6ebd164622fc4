"""One task of a run is ended: whatever there is of it goes, and the others go on."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import pytest

from fairway_agent import control, job_facts, state_files
from fairway_agent.kubernetes import cancel as cancelling
from fairway_agent.kubernetes import controller, submit
from fairway_agent.kubernetes.controller import Controller
from fairway_agent.kubernetes.objects import INDEX, JOB
from fairway_agent.kubernetes.reconcile import reconcile_all
from fairway_agent.shared import receive
from fairway_agent.shared.reports import CancelRequest
from fairway_agent.state_files import TaskState

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Cluster, Server


@pytest.fixture(autouse=True)
def reached(monkeypatch: pytest.MonkeyPatch, server: Server) -> None:
    for module in (submit, cancelling):
        monkeypatch.setattr(module, "Api", lambda: server)


def submitted(cluster: Cluster, nodes: list[int], **more: Any) -> Path:
    folder = cluster.bring("job-a", nodes, **more)
    submit.answer(cluster.shared, cluster.request("job-a"), io.BytesIO())
    return folder


def cancel(cluster: Cluster, task: str, submission: int = 0) -> None:
    request = CancelRequest("job-a", submission, task=task)
    cancelling.answer(cluster.shared, request, io.BytesIO())


def pod(server: Server, job: str, index: int, phase: str = "Running") -> str:
    """A pod of the Job, as its controller makes it."""
    name, template = f"{job}-{index}-abcde", server.of("jobs")[job]["spec"]["template"]
    labels = {**template["metadata"]["labels"], JOB: job, INDEX: str(index)}
    facts = {"name": name, "labels": labels, "creationTimestamp": "2026-11-23T19:00:00Z"}
    server.of("pods")[name] = {**template, "metadata": facts, "status": {"phase": phase}}
    return name


def wrote(folder: Path, task: str, state: str, **more: Any) -> None:
    (folder / "tasks" / task).mkdir(parents=True, exist_ok=True)
    state_files.write(folder / "tasks" / task, TaskState(state, **more))


def tasks(server: Server, folder: Path) -> dict[str, int]:
    assert reconcile_all(server, [folder]) == {}  # type: ignore[arg-type]
    found = state_files.read_run(folder)
    return dict(found.tasks)


def due(folder: Path) -> list[int]:
    known = receive.read(folder)
    assert known is not None
    return [
        part.number for part in controller.due(folder, known, job_facts.read_shared_plan(folder))
    ]


@pytest.mark.parametrize("phase", ["Running", "Pending"])
def test_the_pod_of_a_sweeps_task_goes_and_no_other(cluster: Cluster, phase: str) -> None:
    """With the signal and grace of its pod; the index of one that has ended has another's pod."""
    folder = submitted(cluster, [1, 1, 1])
    kept = [pod(cluster.server, "job-a-0-0", 0), pod(cluster.server, "job-a-0-0", 2)]
    gone = pod(cluster.server, "job-a-0-0", 1, phase)
    if phase == "Running":
        wrote(folder, "1", "running", job=gone, started=1.0)
    cancel(cluster, "1")
    assert [*cluster.server.of("pods")] == kept
    assert [*cluster.server.of("jobs")] == ["job-a-0-0", "job-a-0-controller"]
    if phase == "Running":
        wrote(folder, "1", "cancelled", exit_code=130, ended=2.0)
    assert tasks(cluster.server, folder)["cancelled"] == 1


def test_kubernetes_cancel_of_a_queued_task_ends_it_at_once_and_its_job_last(
    cluster: Cluster,
) -> None:
    """The index has no pod yet; nothing waits for a node for it once the run is over."""
    folder = submitted(cluster, [1, 1], max_parallel=1)
    first = pod(cluster.server, "job-a-0-0", 0)
    wrote(folder, "0", "running", job=first, started=1.0)
    cancel(cluster, "1")
    assert tasks(cluster.server, folder) == {"running": 1, "cancelled": 1}
    wrote(folder, "0", "succeeded", exit_code=0, started=1.0, ended=2.0)
    cluster.server.of("pods").clear()
    assert tasks(cluster.server, folder) == {"succeeded": 1, "cancelled": 1}
    assert "job-a-0-0" in cluster.server.of("jobs")  # a look changes nothing
    Controller(cluster.server, folder, 0, job_facts.read_shared_plan(folder)).step()  # type: ignore[arg-type]
    assert [*cluster.server.of("jobs")] == ["job-a-0-controller"]
    known = state_files.read_run(folder)
    assert known.state == "cancelled"


def test_kubernetes_job_of_a_cancelled_task_stays_where_the_other_tasks_ended_it(
    cluster: Cluster,
) -> None:
    """Its pods may be looked at: it waits for nothing."""
    folder = submitted(cluster, [1, 1])
    cancel(cluster, "1")
    wrote(folder, "0", "succeeded", exit_code=0, started=1.0, ended=2.0)
    ended = [{"type": "Failed", "status": "True", "lastTransitionTime": "2026-11-23T19:00:00Z"}]
    cluster.server.of("jobs")["job-a-0-0"]["status"] = {"conditions": ended}
    wrote(folder, "1", "cancelled", exit_code=130, ended=2.0)
    Controller(cluster.server, folder, 0, job_facts.read_shared_plan(folder)).step()  # type: ignore[arg-type]
    assert tasks(cluster.server, folder) == {"succeeded": 1, "cancelled": 1}
    assert [*cluster.server.of("jobs")] == ["job-a-0-0", "job-a-0-controller"]


def test_a_task_on_several_nodes_goes_with_its_job(cluster: Cluster) -> None:
    folder = submitted(cluster, [2, 2])
    cancel(cluster, "0")
    assert [*cluster.server.of("jobs")] == ["job-a-0-1", "job-a-0-controller"]
    assert tasks(cluster.server, folder) == {"cancelled": 1, "queued": 1}


def test_kubernetes_controller_does_not_start_cancelled_tasks(cluster: Cluster) -> None:
    folder = submitted(cluster, [2, 2, 2], last=True, max_parallel=1)
    assert due(folder) == [0]
    cancel(cluster, "0")
    assert due(folder) == [1]
    assert tasks(cluster.server, folder) == {"cancelled": 1, "queued": 3}
    for task in ("1", "2"):
        cancel(cluster, task)
    assert due(folder) == [3]  # the last task sees what there is
    cancel(cluster, "finally")
    assert due(folder) == []
    assert tasks(cluster.server, folder) == {"cancelled": 4}


def test_a_retry_runs_it_again(cluster: Cluster) -> None:
    """What was ended was that of the submission before."""
    folder = submitted(cluster, [2, 2], last=True, max_parallel=1)
    cancel(cluster, "0")
    known = receive.read(folder)
    assert known is not None
    parts = [
        part.number for part in controller.due(folder, known, job_facts.read_shared_plan(folder))
    ]
    later = receive.Submission(1, known.parts, complete=True)
    assert (
        parts,
        [part.number for part in controller.due(folder, later, job_facts.read_shared_plan(folder))],
    ) == ([1], [0])


def test_pods_of_another_folders_run_of_that_name_are_left_alone(cluster: Cluster) -> None:
    folder = submitted(cluster, [1, 1])
    name = pod(cluster.server, "job-a-0-0", 1)
    [container] = cluster.server.of("pods")[name]["spec"]["containers"]
    container["command"] = [
        each.replace(str(cluster.shared), "/their") for each in container["command"]
    ]
    cancel(cluster, "1")
    assert name in cluster.server.of("pods")
    assert control.read(folder).cancelled_names == {"1"}


def test_a_run_that_is_gone_has_no_tasks(cluster: Cluster) -> None:
    cancel(cluster, "1")
    assert not (cluster.shared / "runs").exists()
