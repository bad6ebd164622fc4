"""Nodes and pools of the simulated account: sizes, boots, losses and remote login."""

import subprocess
from pathlib import Path
from typing import Any

import pytest
from azure.core.exceptions import HttpResponseError, ResourceExistsError, ResourceNotFoundError
from programs import finished

from fairway_simulator.batch.orders import order
from fairway_simulator.batch.wire.bodies import ServiceError

FAST = {"polling_interval": 0.05}
WAITS = {"nodeDeallocationOption": "taskcompletion"}
ONE = "tvm-sim-1_d"


def close(error: Any) -> int:
    """Closes a refused download, which the client leaves open, and returns its status."""
    error.value.response.close()
    return int(error.value.status_code)


def resize(client: Any, pool: str, count: int) -> None:
    client.begin_resize_pool(pool, {"targetDedicatedNodes": count, **WAITS}, **FAST).result()


def test_batch_pool_that_shrinks_waits_for_tasks(service: Any, client: Any, job: str) -> None:
    for name in "123":
        client.create_task(job, {"id": name, "commandLine": "sleep 300"})
        service.wait_for_task(job, name, "running")
    options = {"targetDedicatedNodes": 1, **WAITS}
    client.begin_resize_pool("sim", options, polling_interval=3600)
    assert client.get_pool("sim").allocation_state == "resizing"
    with pytest.raises(ResourceExistsError) as caught:
        client.begin_resize_pool("sim", options)
    assert caught.value.error.code == "PoolBeingResized"
    for name in "123":
        client.terminate_task(job, name)
    service.wait_until(lambda: client.get_pool("sim").allocation_state == "steady")
    assert client.get_pool("sim").current_dedicated_nodes == 1


def test_batch_pool_resize_stops_at_the_quota_with_an_error(service: Any, client: Any) -> None:
    service.limit_pool(4)
    resize(client, "sim", 9)
    pool = client.get_pool("sim")
    assert (pool.target_dedicated_nodes, pool.current_dedicated_nodes) == (9, 4)
    assert [error.code for error in pool.resize_errors] == ["AccountCoreQuotaReached"]
    service.limit_pool(None)
    assert client.get_pool("sim").current_dedicated_nodes == 9
    assert client.get_pool("sim").resize_errors is None


def test_batch_node_that_is_preempted_returns_its_task(service: Any, client: Any, job: str) -> None:
    client.create_task(job, {"id": "1", "commandLine": "sleep 300"})
    service.wait_for_task(job, "1", "running")
    node = client.get_task(job, "1").node_info.node_id
    service.preempt(node)
    assert client.get_node("sim", node).state == "preempted"
    service.wait_for_task(job, "1", "running")
    task = client.get_task(job, "1")
    assert task.node_info.node_id != node
    # Neither counts preemptions: see retry_count and requeue_count in azure-batch.
    assert (task.execution_info.requeue_count, task.execution_info.retry_count) == (0, 0)
    service.restore(node)
    service.wait_for_node(node, "idle")


def test_batch_node_that_is_lost_refuses_to_serve_files(
    service: Any, client: Any, run: Any, read: Any
) -> None:
    node = run("echo here").node_info.node_id
    assert read() == "here\n"
    service.lose(node)
    assert client.get_node("sim", node).state == "unknown"
    with pytest.raises(HttpResponseError) as caught:
        read()
    assert close(caught) == 409
    with pytest.raises(HttpResponseError) as caught:
        client.download_node_file("sim", node, "workitems/job/job-1/1/stdout.txt")
    assert close(caught) == 409


def test_batch_node_keeps_its_disk_on_a_reboot_but_not_on_a_reimage(
    service: Any, client: Any, job: str
) -> None:
    file = service.node_folder(ONE) / "shared" / "kept"
    file.touch()
    client.begin_reboot_node("sim", ONE, {"nodeRebootOption": "requeue"}, **FAST).result()
    service.wait_for_node(ONE, "idle")
    assert file.exists()
    client.begin_reimage_node("sim", ONE, {"nodeReimageOption": "requeue"}, **FAST).result()
    service.wait_for_node(ONE, "idle")
    assert not file.exists()


def test_batch_task_waits_for_all_the_slots_that_it_requires(service: Any, client: Any) -> None:
    """A task that requires more slots than a node has waits forever, but does not block others."""
    service.add_pool("slots", targetDedicatedNodes=1, taskSlotsPerNode=3)
    client.create_job({"id": "j", "poolInfo": {"poolId": "slots"}})
    for name, count in (("2", 2), ("all", 3), ("never", 4), ("1", 1)):
        client.create_task("j", {"id": name, "commandLine": "sleep 300", "requiredSlots": count})
    for name in "21":
        service.wait_for_task("j", name, "running")
    assert client.get_node("slots", "tvm-slots-1_d").running_task_slots_count == 3
    assert client.get_task("j", "all").state == "active"
    for name in "21":
        client.terminate_task("j", name)
    service.wait_for_task("j", "all", "running")
    client.terminate_task("j", "all")
    service.wait_for_task("j", "all")
    client.create_task("j", {"id": "last", "commandLine": "true"})
    service.wait_for_task("j", "last")
    assert client.get_task("j", "never").state == "active"


def test_batch_pool_with_autoscaling_follows_its_formula(service: Any, client: Any) -> None:
    formula = (
        "pending = $PendingTasks.GetSamplePercent(180 * TimeInterval_Second) < 60 ? "
        "9 : max(3, $PendingTasks.GetSample(1)); // all of them\n"
        "$TargetDedicatedNodes = min(8, pending);\n$NodeDeallocationOption = taskcompletion;"
    )
    service.add_pool("auto", enableAutoScale=True, autoScaleFormula=formula)
    pool = client.get_pool("auto")
    assert pool.current_dedicated_nodes == 3
    with pytest.raises(ResourceExistsError):
        client.begin_resize_pool("auto", {"targetDedicatedNodes": 1, **WAITS})


@pytest.mark.parametrize("option", [{}, {"nodeDeallocationOption": "requeue"}])
def test_batch_pool_resize_with_another_deallocation_option_is_refused(
    client: Any, option: dict[str, str]
) -> None:
    with pytest.raises(HttpResponseError) as caught:
        client.begin_resize_pool("sim", {"targetDedicatedNodes": 1, **option})
    assert caught.value.status_code == 400


@pytest.mark.parametrize(
    "spec",
    [
        {"vmSize": "Standard_D4s_v6", "taskSlotsPerNode": 17},
        {"vmSize": "Standard_ND96isr_H100_v5", "taskSlotsPerNode": 257},
        {"vmSize": "x", "taskSlotsPerNode": 0},
        {
            "targetDedicatedNodes": 1,
            "targetLowPriorityNodes": 1,
            "enableInterNodeCommunication": True,
        },
        {"targetDedicatedNodes": 1, "enableAutoScale": True},
        {"enableAutoScale": True, "autoScaleFormula": "$TargetDedicatedNodes = 1 / 0;"},
    ],
)
def test_batch_pool_with_invalid_properties_is_refused(service: Any, spec: dict[str, Any]) -> None:
    with pytest.raises(ServiceError) as caught:
        service.add_pool("p", **spec)
    assert caught.value.code == "InvalidPropertyValue"


def test_batch_task_files_are_read_in_ranges_and_only_below_the_task(run: Any, read: Any) -> None:
    run("mkdir -p a; printf 0123456789 >a/data; echo out")
    assert read(file="wd/a/data", ocp_range="bytes=3-5") == "345"
    assert read(file="wd/a/data", ocp_range="bytes=8-99") == "89"
    assert read(file="wd/a/data", ocp_range="bytes=8-") == "89"
    with pytest.raises(HttpResponseError) as caught:
        read(file="wd/a/data", ocp_range="bytes=10-12")
    assert close(caught) == 416
    with pytest.raises(ResourceNotFoundError) as caught:
        read(file="wd/none")
    assert close(caught) == 404
    for outside in ("../1/stdout.txt", "/etc/hostname"):
        with pytest.raises(HttpResponseError) as caught:
            read(file=outside)
        assert close(caught) == 404


@pytest.fixture
def ssh_key(tmp_path: Path) -> Path:
    key = tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    return key


def _ssh(login: Any, user: str, key: Path, command: str) -> subprocess.CompletedProcess[str]:
    settings = ("StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null", "IdentitiesOnly=yes")
    options = [f"-o{each}" for each in (*settings, "BatchMode=yes", "LogLevel=ERROR")]
    options += [f"-i{key}", f"-p{login.remote_login_port}"]
    address = f"{user}@{login.remote_login_ip_address}"
    return finished(["ssh", "-Fnone", *options, address, command])


def test_batch_node_user_can_log_in_until_removed(
    need: Any, service: Any, client: Any, ssh_key: Path
) -> None:
    need("sshd", "openssh-server")
    need("ssh", "openssh-client")
    public = ssh_key.with_suffix(".pub").read_text()
    client.create_node_user("sim", ONE, {"name": "visitor", "sshPublicKey": public})
    login = client.get_node_remote_login_settings("sim", ONE)
    inside = _ssh(login, "visitor", ssh_key, "hostname; echo $HOME")
    assert inside.stdout.split()[0] == "tvm-sim-1", inside.stderr
    assert inside.stdout.split()[1].endswith("/home/visitor")
    assert _ssh(login, "stranger", ssh_key, "true").returncode == 255
    with pytest.raises(ResourceExistsError) as caught:
        client.create_node_user("sim", ONE, {"name": "visitor", "sshPublicKey": public})
    assert caught.value.error.code == "NodeUserExists"
    client.delete_node_user("sim", ONE, "visitor")
    assert _ssh(login, "visitor", ssh_key, "true").returncode == 255


def test_batch_pool_without_mapped_ports_refuses_remote_logins(service: Any, client: Any) -> None:
    service.add_pool("closed", targetDedicatedNodes=1)
    with pytest.raises(ResourceExistsError):
        client.get_node_remote_login_settings("closed", service.node_ids("closed")[0])


def test_batch_node_user_cannot_log_in_once_expired(need: Any, client: Any, ssh_key: Path) -> None:
    need("sshd", "openssh-server")
    user = {
        "name": "late",
        "sshPublicKey": ssh_key.with_suffix(".pub").read_text(),
        "expiryTime": "2020-01-01T00:00:00Z",
    }
    client.create_node_user("sim", ONE, user)
    login = client.get_node_remote_login_settings("sim", ONE)
    assert _ssh(login, "late", ssh_key, "true").returncode == 255


def test_batch_order_preempts_and_restores_a_node(
    service: Any, client: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("AZURE_BATCH_ENDPOINT", raising=False)
    assert order(["preempt", ONE]) == 2
    assert "source ./sim.env" in capsys.readouterr().err
    monkeypatch.setenv("AZURE_BATCH_ENDPOINT", service.endpoint)
    monkeypatch.setenv("AZURE_BATCH_ACCESS_KEY", service.key)
    assert order(["preempt", ONE]) == 0
    assert client.get_node("sim", ONE).state == "preempted"
    assert order(["restore", ONE]) == 0
    service.wait_for_node(ONE, "idle")
    assert order(["lose", "tvm-nobody"]) == 2
    assert "there is no node `tvm-nobody`" in capsys.readouterr().err


def test_batch_order_adds_and_removes_faults(
    service: Any, client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AZURE_BATCH_ENDPOINT", service.endpoint)
    monkeypatch.setenv("AZURE_BATCH_ACCESS_KEY", service.key)
    words = ("--status", "500", "--count", "1", "--method", "GET", "--path", "/pools/sim$")
    assert order(["fault", "status", *words]) == 0
    hits = service.faults.hits
    assert client.get_pool("sim").id == "sim", "the client asks again"
    assert hits == {"status": 1}
    assert order(["fault", "cut", "--share", "1", "--path", "/jobs"]) == 0
    assert order(["fault", "off"]) == 0
    assert list(client.list_jobs()) == []
    assert hits == {"status": 1}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["explode"], "invalid choice: 'explode'"),
        (["status", "--status", "200"], "400 to 599"),
        (["cut", "--share", "1.5"], "0.0 to 1.0"),
        (["cut", "--share", "nan"], "0.0 to 1.0"),
        (["cut", "--count", "-1"], "0 to 1000000000"),
        (["slow", "--seconds", "inf"], "0.0 to 86400.0"),
        (["cut", "--path", "("], "no regular expression"),
        (["cut", "--method", "get"], "invalid choice: 'get'"),
    ],
)
def test_batch_order_refuses_an_invalid_fault(
    capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    with pytest.raises(SystemExit) as caught:
        order(["fault", *words])
    assert caught.value.code == 2
    assert said in capsys.readouterr().err
