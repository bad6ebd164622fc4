"""Jobs of the simulated account: how they end, stop and go on, and what tasks wait for."""

from datetime import timedelta
from typing import Any

import pytest
from azure.batch.models import BatchJobUpdateOptions
from azure.core.exceptions import HttpResponseError, ResourceExistsError, ResourceNotFoundError
from command_lines import bash


def make(client: Any, name: str = "j", **spec: Any) -> str:
    client.create_job({"id": name, "poolInfo": {"poolId": "sim"}, **spec})
    return name


def add(client: Any, name: str, script: str = "true", job: str = "j", **spec: Any) -> None:
    client.create_task(job, {"id": name, "commandLine": bash(script), **spec})


def test_an_empty_job_that_ends_with_its_tasks_ends_at_once(client: Any) -> None:
    make(client, onAllTasksComplete="terminatejob")
    job = client.get_job("j")
    assert (job.state, job.execution_info.termination_reason) == ("completed", "AllTasksComplete")
    with pytest.raises(ResourceExistsError) as caught:
        add(client, "1")
    assert caught.value.error.code == "JobCompleted"
    with pytest.raises(ResourceExistsError) as caught:
        client.create_task_collection("j", {"value": [{"id": "1", "commandLine": "true"}]})
    assert caught.value.error.code == "JobCompleted"


def test_a_job_told_to_end_once_all_is_done_ends_then(service: Any, client: Any) -> None:
    make(client)
    add(client, "1")
    service.wait_for_task("j", "1")
    assert client.get_job("j").state == "active"
    client.update_job("j", BatchJobUpdateOptions(all_tasks_complete_mode="terminatejob"))
    service.wait_for_job("j")
    assert client.get_job("j").execution_info.termination_reason == "AllTasksComplete"


def test_a_terminated_job_leaves_waiting_tasks_active(service: Any, client: Any) -> None:
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


def test_batch_job_that_is_being_terminated_does_not_say_why_yet(service: Any, client: Any) -> None:
    """See termination_reason of BatchJobExecutionInfo in azure-batch."""
    make(client)
    add(client, "1", "sleep 300")
    service.wait_for_task("j", "1", "running")
    with service._core.account.changed:  # so that it does not end in between
        job = service._core.account.job("j")
        service._core.jobs.terminate(job, "enough")
        found = {**job.wire(), "executionInfo": {**job.info}}
    assert found["state"] == "terminating"
    assert "terminateReason" not in found["executionInfo"]
    service.wait_for_job("j")
    assert client.get_job("j").execution_info.termination_reason == "enough"


def test_a_deleted_job_is_gone_with_its_files(service: Any, client: Any) -> None:
    make(client)
    add(client, "1", "sleep 300")
    service.wait_for_task("j", "1", "running")
    client.begin_delete_job("j", polling_interval=0.05).result()
    with pytest.raises(ResourceNotFoundError) as caught:
        client.get_job("j")
    assert caught.value.error.code == "JobNotFound"
    assert not list(service.folder.glob("nodes/*/workitems/j"))


def test_a_job_disabled_with_wait_lets_its_tasks_end(service: Any, client: Any) -> None:
    make(client)
    add(client, "1", "until [[ -e $AZ_BATCH_NODE_MOUNTS_DIR/shared/go ]]; do :; done")
    service.wait_for_task("j", "1", "running")
    client.begin_disable_job("j", {"disableTasks": "wait"})
    assert client.get_job("j").state == "disabling"
    (service.shared_folder / "go").touch()
    service.wait_for_job("j", "disabled")
    assert client.get_task("j", "1").execution_info.result == "success"


def test_the_wall_clock_time_of_a_job_ends_it(service: Any, client: Any) -> None:
    make(client, constraints={"maxWallClockTime": "PT1H"})
    add(client, "1", "sleep 300")
    service.wait_for_task("j", "1", "running")
    service.advance(3601)
    service.wait_for_job("j")
    assert client.get_job("j").execution_info.termination_reason == "MaxWallClockTimeExpiry"


def test_batch_clock_never_goes_back(service: Any) -> None:
    with pytest.raises(ValueError, match="a clock goes forward only"):
        service.advance(-1)


def on(start: int, end: int) -> dict[str, Any]:
    """Dependencies on the tasks with these numbers."""
    return {"taskIdRanges": [{"start": start, "end": end}]}


def test_tasks_wait_for_those_that_they_depend_on(service: Any, client: Any) -> None:
    make(client, usesTaskDependencies=True, onAllTasksComplete="noaction")
    log = "echo $AZ_BATCH_TASK_ID >>$AZ_BATCH_NODE_MOUNTS_DIR/shared/order"
    add(client, "last", log, dependsOn=on(4, 4))
    add(client, "4", log, dependsOn=on(1, 3))
    assert client.get_task("j", "4").state == "active"
    for name in "123":
        add(client, name, log)
    service.wait_for_task("j", "last")
    order = (service.shared_folder / "order").read_text().split()
    assert (sorted(order[:3]), order[3:]) == (["1", "2", "3"], ["4", "last"])


@pytest.mark.parametrize(("action", "state"), [("block", "active"), ("satisfy", "completed")])
def test_a_failure_blocks_dependents_unless_it_satisfies_them(
    service: Any, client: Any, action: str, state: str
) -> None:
    make(client, usesTaskDependencies=True)
    condition = {"default": {"dependencyAction": action}}
    add(client, "1", "exit 3", exitConditions=condition)
    add(client, "2", dependsOn=on(1, 1))
    service.wait_for_task("j", "1")
    if state == "completed":
        service.wait_for_task("j", "2")
    # A task that comes later and waits for nothing has run: the blocked one had its chance.
    add(client, "3")
    service.wait_for_task("j", "3")
    assert client.get_task("j", "2").state == state


def test_jobs_of_a_higher_priority_come_first(service: Any, client: Any) -> None:
    service.add_pool("one")
    pool = {"poolInfo": {"poolId": "one"}}
    make(client, "low", priority=-5, **pool)
    make(client, "high", priority=7, **pool)
    for job in ("low", "high"):
        add(client, "1", job=job)
    client.begin_resize_pool("one", {"targetDedicatedNodes": 1}, polling_interval=0.05).result()
    for job in ("low", "high"):
        service.wait_for_task(job, "1")
    started = {job: client.get_task(job, "1").execution_info.start_time for job in ("low", "high")}
    assert started["high"] < started["low"]


def test_counts_follow_the_states(service: Any, client: Any) -> None:
    make(client, maxParallelTasks=1)
    add(client, "1", "exit 1")
    add(client, "2")
    add(client, "3", "sleep 300")
    add(client, "4")
    service.wait_for_task("j", "3", "running")
    client.get_job_task_counts("j")  # they are those of the look before
    counts = client.get_job_task_counts("j").task_counts
    seen = (counts.active, counts.running, counts.completed, counts.succeeded, counts.failed)
    assert seen == (1, 1, 2, 1, 1)


@pytest.mark.parametrize(
    "spec",
    [
        {"priority": 1001},
        {"onAllTasksComplete": "sometimes"},
        {"constraints": {"maxWallClockTime": "yes"}},
        {"jobReleaseTask": {"commandLine": "true"}},
        {
            "jobPreparationTask": {"commandLine": "true"},
            "jobReleaseTask": {"commandLine": "true", "maxWallClockTime": "PT16M"},
        },
        {"metadata": [{"name": "a"}]},
        {"id": "has space"},
    ],
)
def test_a_job_that_cannot_be_is_refused(client: Any, spec: dict[str, Any]) -> None:
    with pytest.raises(HttpResponseError) as caught:
        client.create_job({"id": "j", "poolInfo": {"poolId": "sim"}, **spec})
    assert caught.value.status_code == 400


def test_a_job_needs_a_pool_that_exists(client: Any) -> None:
    with pytest.raises(ResourceNotFoundError) as caught:
        client.create_job({"id": "j", "poolInfo": {"poolId": "none"}})
    assert caught.value.error.code == "PoolNotFound"


def test_metadata_and_pages_of_jobs(client: Any) -> None:
    for number in range(5):
        make(client, f"j{number}", metadata=[{"name": "run", "value": str(number)}])
    jobs = list(client.list_jobs(max_results=2, select=["id", "metadata"]))
    assert [job.metadata[0].value for job in jobs] == list("01234")
    named = client.list_jobs(filter="executionInfo/poolId eq 'sim'")
    assert [job.id for job in named] == [f"j{number}" for number in range(5)]
    assert list(client.list_jobs(filter="executionInfo/poolId eq 'other'")) == []


PREPARED = {
    "jobPreparationTask": {"commandLine": bash("echo prepared; hostname")},
    "jobReleaseTask": {
        "commandLine": bash("echo $AZ_BATCH_NODE_ID >>$AZ_BATCH_NODE_MOUNTS_DIR/shared/released")
    },
}


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
    """The jobs that the schedule has made."""
    return [job.id for job in client.list_jobs() if job.id.startswith("s:")]


def test_a_schedule_makes_a_job_at_each_of_its_times(service: Any, client: Any) -> None:
    specification = {
        "poolInfo": {"poolId": "sim"},
        "jobManagerTask": None,
        "constraints": {"maxWallClockTime": "PT30M"},
    }
    schedule = {"recurrenceInterval": "PT1H"}
    client.create_job_schedule({"id": "s", "schedule": schedule, "jobSpecification": specification})
    service.wait_until(lambda: len(made(client)) == 1)
    [known] = client.list_job_schedules()
    assert known.execution_info.recent_job.id == "s:job-1"
    service.advance(1900)
    service.wait_for_job("s:job-1")
    service.advance(1900)
    service.wait_until(lambda: len(made(client)) == 2)
    client.disable_job_schedule("s")
    service.advance(7200)
    service.wait_for_job("s:job-2")
    assert len(made(client)) == 2
    assert [each.state for each in client.list_job_schedules()] == ["disabled"]
    client.enable_job_schedule("s")
    service.wait_until(lambda: len(made(client)) == 3)
    client.begin_delete_job_schedule("s", polling_interval=0.05).result()
    service.wait_until(lambda: not list(client.list_jobs()))


def every(client: Any, interval: object, name: str = "s") -> None:
    """A schedule of jobs of the pool `sim`."""
    about = {"recurrenceInterval": interval}, {"poolInfo": {"poolId": "sim"}}
    client.create_job_schedule({"id": name, "schedule": about[0], "jobSpecification": about[1]})


def test_a_schedule_has_one_job_at_a_time(service: Any, client: Any) -> None:
    every(client, timedelta(minutes=1))
    service.wait_for_job("s:job-1", "active")
    service.advance(600)
    every(client, timedelta(minutes=1), "later")  # who makes its job has looked at the other first
    service.wait_for_job("later:job-1", "active")
    assert len(list(client.list_jobs())) == 2


def test_a_schedule_more_often_than_every_minute_is_refused(client: Any) -> None:
    with pytest.raises(HttpResponseError) as caught:
        every(client, "PT30S")
    assert caught.value.error.code == "InvalidPropertyValue"
