"""Jobs of the simulated account: their ends, dependencies, priorities and schedules."""

from datetime import timedelta
from typing import Any

import pytest
from azure.core.exceptions import HttpResponseError, ResourceExistsError, ResourceNotFoundError
from command_lines import bash


def make(client: Any, name: str = "j", **spec: Any) -> str:
    client.create_job({"id": name, "poolInfo": {"poolId": "sim"}, **spec})
    return name


def add(client: Any, name: str, script: str = "true", job: str = "j", **spec: Any) -> None:
    client.create_task(job, {"id": name, "commandLine": bash(script), **spec})


def test_batch_job_without_tasks_that_ends_with_its_tasks_ends_at_once(client: Any) -> None:
    make(client, onAllTasksComplete="terminatejob")
    job = client.get_job("j")
    assert (job.state, job.execution_info.termination_reason) == ("completed", "AllTasksComplete")
    with pytest.raises(ResourceExistsError) as caught:
        add(client, "1")
    assert caught.value.error.code == "JobCompleted"
    with pytest.raises(ResourceExistsError) as caught:
        client.create_task_collection("j", {"value": [{"id": "1", "commandLine": "true"}]})
    assert caught.value.error.code == "JobCompleted"


def test_batch_job_that_is_terminated_keeps_waiting_tasks_active(service: Any, client: Any) -> None:
    make(client, maxParallelTasks=1)
    add(client, "1", "sleep 300")
    add(client, "2")
    service.wait_for_task("j", "1", "running")
    client.begin_terminate_job("j", {"terminateReason": "enough"}, polling_interval=0.05).result()
    service.wait_for_job("j")
    assert client.get_job("j").execution_info.termination_reason == "enough"
    assert client.get_task("j", "1").execution_info.failure_info.code == "TaskEnded"
    assert client.get_task("j", "2").state == "active"
    with pytest.raises(ResourceExistsError) as caught:
        client.begin_terminate_job("j", {"terminateReason": "again"})
    assert caught.value.error.code == "JobCompleted"


def test_batch_job_that_is_being_terminated_has_no_reason_yet(service: Any, client: Any) -> None:
    """See termination_reason of BatchJobExecutionInfo in azure-batch."""
    make(client)
    add(client, "1", "sleep 300")
    service.wait_for_task("j", "1", "running")
    with service._core.account.changed:  # so that the job does not end in between
        job = service._core.account.job("j")
        service._core.jobs.terminate(job, "enough")
        found = {**job.wire(), "executionInfo": {**job.info}}
    assert found["state"] == "terminating"
    assert "terminateReason" not in found["executionInfo"]
    service.wait_for_job("j")
    assert client.get_job("j").execution_info.termination_reason == "enough"


def test_batch_job_that_is_deleted_is_gone_with_its_files(service: Any, client: Any) -> None:
    make(client)
    add(client, "1", "sleep 300")
    service.wait_for_task("j", "1", "running")
    client.begin_delete_job("j", polling_interval=0.05).result()
    with pytest.raises(ResourceNotFoundError) as caught:
        client.get_job("j")
    assert caught.value.error.code == "JobNotFound"
    assert not list(service.folder.glob("nodes/*/workitems/j"))


RANGE = {"taskIdRanges": [{"start": 1, "end": 1}]}
IDS = {"taskIds": ["1"]}


@pytest.mark.parametrize(
    ("action", "others", "state"),
    [("block", RANGE, "active"), ("satisfy", RANGE, "completed"), ("block", IDS, "active")],
)
def test_batch_task_failure_blocks_dependent_tasks_unless_it_satisfies_them(
    service: Any, client: Any, action: str, others: dict[str, Any], state: str
) -> None:
    make(client, usesTaskDependencies=True)
    condition = {"default": {"dependencyAction": action}}
    add(client, "1", "exit 3", exitConditions=condition)
    add(client, "2", dependsOn=others)
    service.wait_for_task("j", "1")
    if state == "completed":
        service.wait_for_task("j", "2")
    # A later task without dependencies has run: the blocked one could have run before it.
    add(client, "3")
    service.wait_for_task("j", "3")
    assert client.get_task("j", "2").state == state


def test_batch_jobs_of_a_higher_priority_start_first(service: Any, client: Any) -> None:
    service.add_pool("one")
    pool = {"poolInfo": {"poolId": "one"}}
    make(client, "low", priority=-5, **pool)
    make(client, "high", priority=7, **pool)
    for job in ("low", "high"):
        add(client, "1", job=job)
    size = {"targetDedicatedNodes": 1, "nodeDeallocationOption": "taskcompletion"}
    client.begin_resize_pool("one", size, polling_interval=0.05).result()
    for job in ("low", "high"):
        service.wait_for_task(job, "1")
    started = {job: client.get_task(job, "1").execution_info.start_time for job in ("low", "high")}
    assert started["high"] < started["low"]


def test_batch_task_counts_lag_one_request_behind_the_states(service: Any, client: Any) -> None:
    make(client, maxParallelTasks=1)
    add(client, "1", "exit 1")
    add(client, "2")
    add(client, "3", "sleep 300")
    add(client, "4")
    service.wait_for_task("j", "3", "running")
    before, counts = (client.get_job_task_counts("j").task_counts for _ in range(2))
    assert before.active == 0, "they are those of the look before"
    seen = (counts.active, counts.running, counts.completed, counts.succeeded, counts.failed)
    assert seen == (1, 1, 2, 1, 1)


@pytest.mark.parametrize(
    "spec",
    [
        {"priority": 1001},
        {"onAllTasksComplete": "sometimes"},
        {"constraints": {"maxWallClockTime": "PT1H"}},
        {"jobReleaseTask": {"commandLine": "true"}},
        {
            "jobPreparationTask": {"commandLine": "true"},
            "jobReleaseTask": {"commandLine": "true", "maxWallClockTime": "PT16M"},
        },
        {"metadata": [{"name": "a"}]},
        {"id": "has space"},
    ],
)
def test_batch_job_with_an_invalid_property_is_refused(client: Any, spec: dict[str, Any]) -> None:
    with pytest.raises(HttpResponseError) as caught:
        client.create_job({"id": "j", "poolInfo": {"poolId": "sim"}, **spec})
    assert caught.value.status_code == 400


def test_batch_job_on_an_unknown_pool_is_refused(client: Any) -> None:
    with pytest.raises(ResourceNotFoundError) as caught:
        client.create_job({"id": "j", "poolInfo": {"poolId": "none"}})
    assert caught.value.error.code == "PoolNotFound"


def test_batch_jobs_are_listed_by_pool_with_the_selected_properties(client: Any) -> None:
    make(client, metadata=[{"name": "run", "value": "a"}])
    query = {"filter": "executionInfo/poolId eq 'sim'", "select": ["id", "metadata"]}
    [job] = client.list_jobs(**query)
    assert (job.id, job.metadata[0].value, job.state) == ("j", "a", None)
    assert list(client.list_jobs(filter="executionInfo/poolId eq 'other'")) == []


def test_batch_job_runs_no_task_on_a_node_with_failed_preparation(
    service: Any, client: Any
) -> None:
    script = "[[ $AZ_BATCH_NODE_ID != tvm-sim-1_d ]] || exit 9"
    make(client, jobPreparationTask={"commandLine": bash(script)})
    add(client, "1")
    service.wait_for_task("j", "1")
    assert client.get_task("j", "1").node_info.node_id != "tvm-sim-1_d"
    failed = [
        state.job_preparation_task_execution_info
        for state in client.list_job_preparation_and_release_task_status("j")
        if state.node_id == "tvm-sim-1_d"
    ]
    assert [info.exit_code for info in failed] == [9]


def made(client: Any) -> list[str]:
    """Returns the jobs that the schedule has created."""
    return [job.id for job in client.list_jobs() if job.id.startswith("s:")]


def every(client: Any, interval: object, name: str = "s") -> None:
    """Creates a schedule of jobs on the pool `sim`."""
    about = {"recurrenceInterval": interval}, {"poolInfo": {"poolId": "sim"}}
    client.create_job_schedule({"id": name, "schedule": about[0], "jobSpecification": about[1]})


def test_batch_schedule_creates_one_job_at_a_time_at_its_interval(
    service: Any, client: Any
) -> None:
    every(client, timedelta(hours=1))
    service.wait_for_job("s:job-1", "active")
    service.advance(3700)
    every(
        client, timedelta(minutes=1), "later"
    )  # its job is created after the other schedule was checked
    service.wait_for_job("later:job-1", "active")
    assert made(client) == ["s:job-1"]
    client.disable_job_schedule("s")
    client.begin_terminate_job("s:job-1", {"terminateReason": "a"}, polling_interval=0.05).result()
    service.advance(7200)
    every(client, timedelta(minutes=1), "last")
    service.wait_for_job("last:job-1", "active")
    assert len(made(client)) == 1
    assert next(each.state for each in client.list_job_schedules()) == "disabled"
    client.enable_job_schedule("s")
    service.wait_until(lambda: len(made(client)) == 2)
    assert next(iter(client.list_job_schedules())).execution_info.recent_job.id == "s:job-2"
    client.begin_delete_job_schedule("s", polling_interval=0.05).result()
    service.wait_until(lambda: not made(client))


def test_batch_schedule_with_an_interval_below_a_minute_is_refused(client: Any) -> None:
    with pytest.raises(HttpResponseError) as caught:
        every(client, "PT30S")
    assert caught.value.error.code == "InvalidPropertyValue"
