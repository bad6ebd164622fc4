"""Multi-instance tasks of the simulated account, with real processes and real ssh."""

from typing import Any

import pytest
from command_lines import bash


def wide(nodes: int, coordination: str, script: str, **spec: Any) -> dict[str, Any]:
    settings = {"numberOfInstances": nodes, "coordinationCommandLine": bash(coordination)}
    return {"commandLine": bash(script), "multiInstanceSettings": settings, **spec}


def output(client: Any, info: Any, file: str = "stdout.txt") -> str:
    path = f"{info.task_root_directory}/{file}"
    return b"".join(client.download_node_file("sim", info.node_id, path)).decode()


def test_batch_multi_instance_task_coordinates_on_all_nodes_and_runs_on_the_main_one(
    service: Any, client: Any, job: str
) -> None:
    coordination = (
        "echo $AZ_BATCH_HOST_LIST $AZ_BATCH_NODE_LIST $AZ_BATCH_IS_CURRENT_NODE_MASTER "
        "$AZ_BATCH_MASTER_NODE $CCP_NODES; hostname -i"
    )
    client.create_task(job, {"id": "1", **wide(3, coordination, "echo main")})
    service.wait_for_task(job, "1")
    task = client.get_task(job, "1")
    assert task.execution_info.exit_code == 0
    # The lists have no documented order: the main node is the last here.
    one, two, three = (node.ip_address for node in client.list_nodes("sim"))
    hosts = f"{two},{three},{one}"
    common = f"{one}:6000 3 {two} 1 {three} 1 {one} 1"
    first = f"{hosts} {hosts.replace(',', ';')} true {common}"
    assert output(client, task.node_info).splitlines() == [first, one, "main"]
    subtasks = list(client.list_subtasks(job, "1"))
    assert [subtask.id for subtask in subtasks] == [1, 2]
    for subtask in subtasks:
        assert (subtask.state, subtask.exit_code, subtask.result) == ("completed", 0, "success")
        lines = output(client, subtask.node_info).splitlines()
        assert lines == [first.replace("true", "false"), (one, two, three)[subtask.id]]


def test_batch_multi_instance_task_starts_after_all_coordination_commands(
    service: Any, client: Any, job: str
) -> None:
    mounts = "$AZ_BATCH_NODE_MOUNTS_DIR/shared"
    coordination = (
        f"if [[ $AZ_BATCH_IS_CURRENT_NODE_MASTER == false ]]; then "
        f"until [[ -e {mounts}/go ]]; do :; done; touch {mounts}/coordinated; fi"
    )
    script = f"test -e {mounts}/coordinated"
    client.create_task(job, {"id": "1", **wide(2, coordination, script)})
    service.wait_for_task(job, "1", "running")
    (subtask,) = client.list_subtasks(job, "1")
    assert subtask.state == "running"
    (service.shared_folder / "go").touch()
    service.wait_for_task(job, "1")
    assert client.get_task(job, "1").execution_info.exit_code == 0


def test_batch_multi_instance_task_with_a_failed_subtask_fails_and_is_retried(
    service: Any, client: Any, job: str
) -> None:
    coordination = "[[ $AZ_BATCH_IS_CURRENT_NODE_MASTER == true ]] && exec sleep 300; exit 6"
    spec = wide(2, coordination, "true", constraints={"maxTaskRetryCount": 1})
    client.create_task(job, {"id": "1", **spec})
    service.wait_for_task(job, "1")
    info = client.get_task(job, "1").execution_info
    assert (info.result, info.failure_info.code) == ("failure", "SubtaskFailure")
    assert info.retry_count == 1
    (subtask,) = client.list_subtasks(job, "1")
    assert (subtask.exit_code, subtask.result) == (6, "failure")


def test_batch_multi_instance_task_ends_all_daemons_with_its_main_command(
    service: Any, client: Any, job: str, sleep: Any
) -> None:
    coordination = (
        f"setsid sleep {sleep.seconds} </dev/null >/dev/null 2>&1 & "
        "echo $! >$AZ_BATCH_NODE_MOUNTS_DIR/shared/$(hostname)"
    )
    client.create_task(job, {"id": "1", **wide(3, coordination, "exit 4")})
    service.wait_for_task(job, "1")
    assert client.get_task(job, "1").execution_info.exit_code == 4
    files = list(service.shared_folder.iterdir())
    assert len(files) == 3
    assert not sleep.lives()


def test_batch_multi_instance_task_waits_for_nodes_and_holds_them(
    service: Any, client: Any, job: str
) -> None:
    client.create_task(job, {"id": "small", "commandLine": "sleep 300"})
    service.wait_for_task(job, "small", "running")
    client.create_task(job, {"id": "wide", **wide(3, "true", "true")})
    client.create_task(job, {"id": "later", "commandLine": "true"})
    assert client.get_task(job, "wide").state == "active"
    client.terminate_task(job, "small")
    service.wait_for_task(job, "later")
    times = {name: client.get_task(job, name).execution_info for name in ("wide", "later")}
    assert times["wide"].end_time <= times["later"].start_time


@pytest.mark.parametrize(
    "spec",
    [
        {"enableInterNodeCommunication": False},
        {"enableInterNodeCommunication": True, "taskSlotsPerNode": 2},
    ],
)
def test_batch_multi_instance_task_on_an_unsuitable_pool_stays_active(
    service: Any, client: Any, spec: dict[str, Any]
) -> None:
    service.add_pool("p", targetDedicatedNodes=2, **spec)
    client.create_job({"id": "j", "poolInfo": {"poolId": "p"}})
    client.create_task("j", {"id": "1", **wide(2, "true", "true")})
    client.create_task("j", {"id": "2", "commandLine": "true"})
    service.wait_for_task("j", "2")
    assert client.get_task("j", "1").state == "active"
