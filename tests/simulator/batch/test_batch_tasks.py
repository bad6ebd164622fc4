"""Tasks of the simulated account: their states, failures, retries and processes."""

from datetime import timedelta
from typing import Any

import pytest
from azure.core.exceptions import HttpResponseError, ResourceExistsError
from command_lines import bash


def test_batch_task_does_not_inherit_the_environment_of_the_simulator(
    monkeypatch: pytest.MonkeyPatch, run: Any, read: Any
) -> None:
    monkeypatch.setenv("AZURE_BATCH_ACCESS_KEY", "secret")
    run("env")
    assert "secret" not in read()


def test_batch_task_variables_override_those_of_the_job(service: Any, client: Any) -> None:
    client.create_job(
        {
            "id": "v",
            "poolInfo": {"poolId": "sim"},
            "commonEnvironmentSettings": [
                {"name": "A", "value": "job"},
                {"name": "B", "value": "x"},
            ],
        }
    )
    settings = [{"name": "A", "value": "task $HOME"}]
    line = bash('echo "$A|$B"')
    client.create_task("v", {"id": "1", "commandLine": line, "environmentSettings": settings})
    service.wait_for_task("v", "1")
    assert b"".join(client.download_task_file("v", "1", "stdout.txt")) == b"task $HOME|x\n"


def test_batch_command_line_is_run_without_a_shell(
    run: Any, client: Any, service: Any, job: str, read: Any
) -> None:
    client.create_task(job, {"id": "e", "commandLine": "echo $HOME && false"})
    service.wait_for_task(job, "e")
    assert read("e") == "$HOME && false\n"


def test_batch_task_killed_by_a_signal_has_an_exit_code_above_128(run: Any) -> None:
    assert run("kill -TERM $$").execution_info.exit_code == 143


def test_batch_task_with_a_missing_program_fails_without_exit_code_or_retry(
    client: Any, service: Any, job: str
) -> None:
    client.create_task(
        job, {"id": "1", "commandLine": "no-such", "constraints": {"maxTaskRetryCount": 3}}
    )
    service.wait_for_task(job, "1")
    info = client.get_task(job, "1").execution_info
    assert info.failure_info.code == "CommandProgramNotFound"
    assert (info.exit_code, info.retry_count) == (None, 0)


def test_batch_task_over_its_wall_clock_time_is_ended_and_not_retried(
    service: Any, client: Any, job: str, read: Any
) -> None:
    constraints = {"maxWallClockTime": "PT1H", "maxTaskRetryCount": 5}
    line = "/bin/bash -c 'echo started; exec sleep 600'"
    client.create_task(job, {"id": "1", "commandLine": line, "constraints": constraints})

    def has_started() -> bool:
        try:
            return bool(read() == "started\n")
        except HttpResponseError:
            return False  # the task has no node or no folder yet

    service.wait_until(has_started)
    service.advance(3600)
    service.wait_for_task(job, "1")
    info = client.get_task(job, "1").execution_info
    assert info.failure_info.code == "TaskEnded"
    assert (info.retry_count, info.result) == (0, "failure")
    assert read() == "started\n"


def test_batch_task_end_kills_its_leftover_processes(run: Any, service: Any, sleep: Any) -> None:
    run(
        f"setsid sleep {sleep.seconds} & disown; "
        f"(setsid sh -c 'echo $$ >$HOME/pid; exec sleep {sleep.seconds}' &); "
        "while [[ ! -s $HOME/pid ]]; do :; done; cp $HOME/pid $AZ_BATCH_NODE_MOUNTS_DIR/shared/pid"
    )
    assert (service.shared_folder / "pid").exists()
    assert not sleep.lives()


def test_batch_task_termination_ends_processes_before_it_answers(
    client: Any, service: Any, job: str, sleep: Any
) -> None:
    script = f"sleep {sleep.seconds} & wait"
    client.create_task(job, {"id": "1", "commandLine": bash(script)})
    service.wait_until(lambda: sleep.lives())
    client.terminate_task(job, "1")
    assert not sleep.lives()
    task = client.get_task(job, "1")
    assert task.state == "completed"
    assert task.execution_info.failure_info.code == "TaskEnded"
    with pytest.raises(ResourceExistsError) as caught:
        client.terminate_task(job, "1")
    assert caught.value.error.code == "TaskCompleted"


@pytest.mark.parametrize(
    "spec",
    [
        {"id": "a b", "commandLine": "true"},
        {"id": "x" * 65, "commandLine": "true"},
        {"id": "a"},
        {"id": "a", "commandLine": "true", "constraints": {"maxWallClockTime": "1h"}},
        {"id": "a", "commandLine": "true", "constraints": {"maxTaskRetryCount": -1}},
        {"id": "a", "commandLine": "true", "dependsOn": {"taskIds": ["b"]}},
        {
            "id": "a",
            "commandLine": "true",
            "requiredSlots": 2,
            "multiInstanceSettings": {"coordinationCommandLine": "true"},
        },
        {"id": "a", "commandLine": "true", "multiInstanceSettings": {"numberOfInstances": 2}},
        {"id": "a", "commandLine": "true", "resourceFiles": [{"httpUrl": "http://x/y"}]},
        {"id": "a", "commandLine": "true", "resourceFiles": [{"filePath": "y"}]},
        {
            "id": "a",
            "commandLine": "true",
            "exitConditions": {"default": {"jobAction": "terminate"}},
        },
    ],
)
def test_batch_task_with_invalid_properties_is_refused(
    client: Any, job: str, spec: dict[str, Any]
) -> None:
    with pytest.raises(HttpResponseError) as caught:
        client.create_task(job, spec)
    assert caught.value.status_code == 400


@pytest.mark.parametrize(
    ("others", "code"),
    [
        ({"taskIdRanges": [{"start": n, "end": n} for n in range(101)]}, "TaskDependencyRanges"),
        ({"taskIds": ["x" * 64] * 1_001}, "InvalidPropertyValue"),
    ],
)
def test_batch_task_with_too_many_dependencies_is_refused(
    client: Any, others: dict[str, Any], code: str
) -> None:
    client.create_job({"id": "d", "poolInfo": {"poolId": "sim"}, "usesTaskDependencies": True})
    with pytest.raises(HttpResponseError) as caught:
        client.create_task("d", {"id": "a", "commandLine": "true", "dependsOn": others})
    assert caught.value.status_code == 400
    assert caught.value.error.code.startswith(code)


def test_batch_task_collection_has_a_result_for_each_task(client: Any, job: str) -> None:
    client.create_task(job, {"id": "2", "commandLine": "true"})
    specs = [{"id": str(n), "commandLine": "true"} for n in range(1, 4)]
    results = client.create_task_collection(job, {"value": specs}).result_values
    assert [r.status for r in results] == ["success", "clienterror", "success"]
    assert results[1].error.code == "TaskExists"
    assert results[0].location.endswith("/jobs/job/tasks/1")


def test_batch_task_collection_above_100_tasks_or_1_mib_is_refused(client: Any, job: str) -> None:
    specs = [{"id": str(n), "commandLine": "true"} for n in range(101)]
    with pytest.raises(HttpResponseError) as caught:
        client.create_task_collection(job, {"value": specs})
    assert caught.value.error.code == "InvalidPropertyValue"
    with pytest.raises(HttpResponseError) as caught:
        client.create_task_collection(job, {"value": [{"id": "1", "commandLine": "x" * (1 << 20)}]})
    assert (caught.value.status_code, caught.value.error.code) == (413, "RequestBodyTooLarge")


def test_batch_tasks_are_listed_in_order_over_pages(service: Any, client: Any) -> None:
    service.add_pool("empty")
    client.create_job({"id": "many", "poolInfo": {"poolId": "empty"}})
    for start in range(0, 2500, 100):
        specs = [{"id": str(n), "commandLine": "true"} for n in range(start, start + 100)]
        client.create_task_collection("many", {"value": specs})
    ids = [task.id for task in client.list_tasks("many", select=["id", "state"])]
    assert ids == [str(n) for n in range(2500)]
    client.get_job_task_counts("many")  # counts lag one request behind
    assert client.get_job_task_counts("many").task_counts.active == 2500
    pages = client.list_tasks("many", filter="state eq 'active'").by_page()
    assert [len(list(page)) for page in pages] == [1000, 1000, 500]


@pytest.mark.parametrize("text", ["state eq", "state = 'x'", "id eq 'a' or", "(id eq 'a'", "a b c"])
def test_batch_task_list_refuses_an_invalid_filter(client: Any, job: str, text: str) -> None:
    with pytest.raises(HttpResponseError) as caught:
        list(client.list_tasks(job, filter=text))
    assert caught.value.error.code == "InvalidQueryParameterValue"


def test_batch_task_constraints_can_be_changed_until_its_end(
    run: Any, client: Any, service: Any, job: str
) -> None:
    service.add_pool("empty")
    client.create_job({"id": "waits", "poolInfo": {"poolId": "empty"}})
    client.create_task("waits", {"id": "1", "commandLine": "true"})
    task = client.get_task("waits", "1")
    task.constraints = {"maxTaskRetryCount": 4}
    client.replace_task("waits", "1", task)
    assert client.get_task("waits", "1").constraints.max_task_retry_count == 4
    ended = run("exit 0")
    with pytest.raises(ResourceExistsError) as caught:
        client.replace_task(job, "1", ended)
    assert caught.value.error.code == "TaskCompleted"


def test_batch_task_files_are_removed_after_their_retention_time(
    run: Any, client: Any, service: Any, job: str, read: Any
) -> None:
    run("echo kept", constraints={"retentionTime": timedelta(hours=1)})
    assert read() == "kept\n"
    service.advance(3601)
    folder = service.node_folder("tvm-sim-1_d") / "workitems/job/job-1/1"
    service.wait_until(lambda: not folder.exists())
    with pytest.raises(HttpResponseError) as caught:
        read()
    caught.value.response.close()  # the client leaves a refused download open
    assert caught.value.status_code == 409


def test_batch_task_with_a_container_on_a_pool_without_containers_fails(run: Any) -> None:
    info = run("true", containerSettings={"imageName": "x"}).execution_info
    assert info.failure_info.code == "ContainerPoolNotSupported"
