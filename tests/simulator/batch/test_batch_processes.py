"""Processes and mounts of a node, which other nodes do not share."""

from typing import Any

import pytest
from command_lines import bash

from fairway_simulator.batch import BatchSimulator
from fairway_simulator.batch.agent import isolation

ADMIN = {"autoUser": {"elevationLevel": "admin", "scope": "pool"}}


@pytest.fixture(autouse=True)
def _apart() -> None:
    if not isolation.can_have_processes():
        pytest.skip("nodes share this machine's processes: it takes root")


def test_batch_task_cannot_see_or_kill_processes_of_another_node(
    service: Any, client: Any, job: str, sleep: Any, read: Any
) -> None:
    """Not even with a signal to all processes that it may signal."""
    pid = "$AZ_BATCH_NODE_MOUNTS_DIR/shared/$AZ_BATCH_TASK_ID"
    waits = bash(f"sleep {sleep.seconds} & echo $! >{pid}; wait")
    for name in ("a", "b"):
        client.create_task(job, {"id": name, "commandLine": waits})
    for name in ("a", "b"):
        service.wait_until(lambda name=name: (service.shared_folder / name).exists())
    service.wait_until(sleep.lives)
    looks = "tr '\\0' ' ' </proc/1/cmdline; echo; kill -KILL -1; echo alone"
    client.create_task(job, {"id": "1", "commandLine": bash(looks)})
    service.wait_for_task(job, "1")
    said = read().splitlines()
    assert said == ["cat ", "alone"], "process 1 is the node's own"
    assert sleep.lives()
    for name in ("a", "b"):
        assert client.get_task(job, name).state == "running"


def test_batch_node_processes_end_with_the_simulator(
    tmp_path: Any, connect: Any, sleep: Any
) -> None:
    with BatchSimulator(tmp_path, nodes=1) as service:
        client = connect(service)
        client.create_job({"id": "job", "poolInfo": {"poolId": "sim"}})
        line = bash(f"setsid sleep {sleep.seconds} & wait")
        client.create_task("job", {"id": "1", "commandLine": line})
        service.wait_until(sleep.lives)
    assert not sleep.lives()


def test_batch_node_has_its_own_mnt_writable_by_root(client: Any, service: Any, job: str) -> None:
    """On Azure the temporary disk is mounted there."""
    mine = bash("test ! -e /mnt/mine && echo >/mnt/mine && sleep 0.2")
    for number in range(3):
        task = {"id": str(number), "commandLine": mine, "userIdentity": ADMIN}
        client.create_task(job, task)
    client.create_task(job, {"id": "user", "commandLine": bash("echo >/mnt/other")})
    for name in ("0", "1", "2", "user"):
        service.wait_for_task(job, name)
    found = [client.get_task(job, str(number)) for number in range(3)]
    nodes = {each.node_info.node_id for each in found if not each.execution_info.exit_code}
    fine = [each for each in found if each.execution_info.exit_code == 0]
    assert len(nodes) == len(fine), "one that met the file was on a node that had it"
    assert fine
    assert client.get_task(job, "user").execution_info.exit_code == 1
