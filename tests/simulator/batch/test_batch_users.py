"""Users as which tasks run, folders that belong to a node, and its process that starts tasks."""

import os
from collections.abc import Callable
from pathlib import Path
from subprocess import Popen
from typing import Any

import pytest

from fairway_simulator.batch.agent.layout import Layout
from fairway_simulator.batch.agent.supervisor_client import Ended, Setting, Supervisor, namespaces

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: nodes have users of their own")
apart = pytest.mark.skipif(not namespaces(), reason="needs namespaces")


@as_root
@pytest.mark.parametrize("identity", [{}, {"userIdentity": {"autoUser": {"scope": "pool"}}}])
def test_batch_task_runs_without_administrator_rights(
    run: Any, read: Any, identity: dict[str, Any]
) -> None:
    script = "id -un; touch /etc/mine || touch /usr/local/mine || touch made && stat -c %U made"
    assert run(script, **identity).execution_info.exit_code == 0
    assert read() == "_azbatch\n_azbatch\n"
    assert read(file="stderr.txt").count("Permission denied") == 2


@as_root
def test_batch_job_preparation_runs_as_the_user_of_tasks(service: Any, client: Any) -> None:
    line = "/bin/bash -c 'id -un; mkdir made'"
    client.create_job(
        {"id": "p", "poolInfo": {"poolId": "sim"}, "jobPreparationTask": {"commandLine": line}}
    )
    folder = "$AZ_BATCH_JOB_PREP_DIR"
    shown = f"/bin/bash -c 'cat {folder}/stdout.txt; touch {folder}/wd/made/x'"
    client.create_task("p", {"id": "1", "commandLine": shown})
    service.wait_for_task("p", "1")
    assert client.get_task("p", "1").execution_info.exit_code == 0
    assert b"".join(client.download_task_file("p", "1", "stdout.txt")) == b"_azbatch\n"


@as_root
def test_batch_simulator_folder_can_be_traversed_by_the_users_of_tasks(tmp_path: Path) -> None:
    """The folder may have been made like temporary folders are, for the simulator's user alone."""
    folder = tmp_path / "sim"
    folder.mkdir(mode=0o700)
    Layout(folder)
    assert folder.stat().st_mode & 0o777 == 0o711


def test_batch_shared_folders_are_writable_for_all_users(run: Any) -> None:
    folders = "$AZ_BATCH_NODE_SHARED_DIR/x $AZ_BATCH_NODE_MOUNTS_DIR/shared/x $HOME/x /tmp/x"
    assert (
        run(f"for each in {folders}; do echo > $each || exit; done").execution_info.exit_code == 0
    )


@apart
def test_batch_temporary_folders_are_separate_for_each_node(
    service: Any, client: Any, job: str, tmp_path: Path
) -> None:
    """Nodes behave like separate machines. Files outside the simulator's folder stay visible."""
    names = "/tmp/fairway-mine /var/tmp/fairway-mine"
    line = f"for each in {names}; do [ ! -e $each ] && echo > $each || exit; done"
    for number in range(3):
        waits = f"until [ -e {tmp_path}/seen ]; do sleep 0.05; done"
        script = f"/bin/bash -c '{waits}; {line}'"
        client.create_task(job, {"id": str(number), "commandLine": script})
    for number in range(3):
        service.wait_for_task(job, str(number), "running")
    (tmp_path / "seen").touch()
    for number in range(3):
        service.wait_for_task(job, str(number))
    found = [client.get_task(job, str(number)) for number in range(3)]
    assert len({each.node_info.node_id for each in found}) == 3
    assert [each.execution_info.exit_code for each in found] == [0, 0, 0]
    # The next task on a node finds the files of the previous one.
    left = f"/bin/bash -c 'cat {names}'"
    client.create_task(job, {"id": "left", "commandLine": left})
    service.wait_for_task(job, "left")
    assert client.get_task(job, "left").execution_info.exit_code == 0


def _killed(program: Callable[[], Popen[bytes]]) -> Popen[bytes]:
    process = program()
    process.kill()
    process.wait()
    return process


def test_batch_supervisor_killed_at_its_start_is_released(tmp_path: Path) -> None:
    """For example if its node is removed meanwhile, with all its processes."""
    supervisor = Supervisor(Setting("node", ()), _killed)
    log = str(tmp_path / "log")
    assert supervisor.run(["true"], str(tmp_path), {}, log, log) == Ended()
    supervisor.close()
