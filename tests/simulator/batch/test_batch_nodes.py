"""Nodes and pools of the simulated account: sizes, boots, losses, and remote login."""

import subprocess
from pathlib import Path
from shlex import quote
from typing import Any

import pytest
from azure.core.exceptions import HttpResponseError, ResourceExistsError, ResourceNotFoundError
from command_lines import bash
from programs import finished

from fairway_simulator.batch.agent.isolation import address_of
from fairway_simulator.batch.orders import order
from fairway_simulator.batch.wire.bodies import ServiceError

FAST = {"polling_interval": 0.05}
ONE = "tvm-sim-1_d"


def close(error: Any) -> int:
    """The status of a refused download, whose connection the client leaves open."""
    error.value.response.close()
    return int(error.value.status_code)


def test_a_pool_grows_and_shrinks(service: Any, client: Any) -> None:
    client.begin_resize_pool("sim", {"targetDedicatedNodes": 5}, **FAST).result()
    assert [node.ip_address for node in client.list_nodes("sim")] == [
        address_of(number, shared=service.nodes_share_network) for number in range(5)
    ]
    client.begin_resize_pool("sim", {"targetDedicatedNodes": 1}, **FAST).result()
    pool = client.get_pool("sim")
    assert (pool.current_dedicated_nodes, pool.allocation_state) == (1, "steady")
    assert len(list((service.folder / "nodes").glob("tvm*_d"))) == 1


def test_a_shrinking_pool_requeues_tasks_or_waits_for_them(
    service: Any, client: Any, job: str
) -> None:
    for name in "123":
        client.create_task(job, {"id": name, "commandLine": "sleep 300"})
        service.wait_for_task(job, name, "running")
    client.begin_resize_pool("sim", {"targetDedicatedNodes": 2}, **FAST).result()
    tasks = {task.id: task for task in client.list_tasks(job)}
    assert sorted(task.state for task in tasks.values()) == ["active", "running", "running"]
    assert sum(task.execution_info.requeue_count for task in tasks.values()) == 1
    options = {"targetDedicatedNodes": 1, "nodeDeallocationOption": "taskcompletion"}
    client.begin_resize_pool("sim", options, polling_interval=3600)
    assert client.get_pool("sim").allocation_state == "resizing"
    with pytest.raises(ResourceExistsError) as caught:
        client.begin_resize_pool("sim", options)
    assert caught.value.error.code == "PoolBeingResized"
    for task in tasks.values():
        if client.get_task(job, task.id).state == "running":
            client.terminate_task(job, task.id)
            break
    other = [t.id for t in client.list_tasks(job) if t.state == "running"]
    for name in other:
        client.terminate_task(job, name)
    service.wait_until(lambda: client.get_pool("sim").allocation_state == "steady")
    assert client.get_pool("sim").current_dedicated_nodes == 1


def test_a_resize_stops_at_the_quota_and_says_so(service: Any, client: Any) -> None:
    service.limit_pool(4)
    client.begin_resize_pool("sim", {"targetDedicatedNodes": 9}, **FAST).result()
    pool = client.get_pool("sim")
    assert (pool.target_dedicated_nodes, pool.current_dedicated_nodes) == (9, 4)
    assert [error.code for error in pool.resize_errors] == ["AccountCoreQuotaReached"]
    service.limit_pool(None)
    assert client.get_pool("sim").current_dedicated_nodes == 9
    assert client.get_pool("sim").resize_errors is None


def test_a_preempted_node_gives_its_task_back(service: Any, client: Any, job: str) -> None:
    client.create_task(job, {"id": "1", "commandLine": "sleep 300"})
    service.wait_for_task(job, "1", "running")
    node = client.get_task(job, "1").node_info.node_id
    service.preempt(node)
    assert client.get_node("sim", node).state == "preempted"
    service.wait_for_task(job, "1", "running")
    task = client.get_task(job, "1")
    assert task.node_info.node_id != node
    # Neither counts it: see the descriptions of retry_count and requeue_count in azure-batch.
    assert (task.execution_info.requeue_count, task.execution_info.retry_count) == (0, 0)
    service.restore(node)
    service.wait_for_node(node, "idle")


ASK = """
import json, os, sys, urllib.request
base = os.environ["FAIRWAY_METADATA_URL"] + "/metadata/"
def ask(path, body=None):
    request = urllib.request.Request(base + path, body, {"Metadata": "true"})
    return json.load(urllib.request.urlopen(request))
(event,) = ask("scheduledevents?api-version=2020-07-01")["Events"]
print(event["EventType"], event["Resources"] == [ask("instance/compute")["name"]], flush=True)
if sys.argv[1:]:
    ask("scheduledevents", json.dumps({"StartRequests": [{"EventId": event["EventId"]}]}).encode())
    import time
    time.sleep(300)
"""


def test_a_notice_that_is_approved_is_not_waited_for(service: Any, client: Any, job: str) -> None:
    service.preempt(ONE, notice=3600)
    line = bash(
        f"if [[ $AZ_BATCH_NODE_ID == {ONE} ]]; then exec python3 -c {quote(ASK)} approve; fi"
    )
    client.create_task(job, {"id": "1", "commandLine": line})
    service.wait_for_task(job, "1")
    assert client.get_task(job, "1").node_info.node_id != ONE
    assert client.get_node("sim", ONE).state == "preempted"


def test_the_files_of_a_lost_node_are_out_of_reach(
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


def test_a_reboot_keeps_the_disk_and_a_new_image_does_not(
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


def test_a_drained_node_gets_no_tasks(service: Any, client: Any, job: str, run: Any) -> None:
    for node in service.node_ids()[:2]:
        client.disable_node_scheduling(
            "sim", node, {"nodeDisableSchedulingOption": "taskcompletion"}
        )
        assert client.get_node("sim", node).state == "offline"
    assert run("true").node_info.node_id == "tvm-sim-3_d"
    with pytest.raises(ResourceExistsError) as caught:
        client.disable_node_scheduling("sim", ONE, {"nodeDisableSchedulingOption": "requeue"})
    assert caught.value.error.code == "NodeAlreadyInTargetSchedulingState"
    client.create_task(job, {"id": "2", "commandLine": "sleep 300"})
    service.wait_for_task(job, "2", "running")
    last = service.node_ids()[2]
    client.disable_node_scheduling("sim", last, {"nodeDisableSchedulingOption": "taskcompletion"})
    assert client.get_node("sim", last).state == "running"
    client.terminate_task(job, "2")
    service.wait_for_node(last, "offline")
    client.enable_node_scheduling("sim", ONE)
    assert client.get_node("sim", ONE).scheduling_state == "enabled"


def test_a_node_says_what_runs_on_it_and_what_ran_before(
    service: Any, client: Any, job: str, run: Any
) -> None:
    service.add_pool("one", targetDedicatedNodes=1)
    client.create_job({"id": "alone", "poolInfo": {"poolId": "one"}})
    [node] = client.list_nodes("one")
    for task, command in (("1", "true"), ("2", "sleep 300")):
        client.create_task("alone", {"id": task, "commandLine": command})
        service.wait_for_task("alone", task, "completed" if task == "1" else "running")
    found = [
        (task.task_id, task.task_state) for task in client.get_node("one", node.id).recent_tasks
    ]
    assert found == [("2", "running"), ("1", "completed")]


def test_a_task_waits_for_all_the_slots_that_it_needs(service: Any, client: Any) -> None:
    """And one that needs more than a node has for ever, while others go by."""
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


def test_autoscale_follows_a_formula(service: Any, client: Any) -> None:
    formula = (
        "pending = $PendingTasks.GetSamplePercent(180 * TimeInterval_Second) < 60 ? "
        "9 : max(3, $PendingTasks.GetSample(1)); // all of them\n"
        "$TargetDedicatedNodes = min(8, pending);\n$NodeDeallocationOption = taskcompletion;"
    )
    service.add_pool("auto", enableAutoScale=True, autoScaleFormula=formula)
    pool = client.get_pool("auto")
    assert pool.current_dedicated_nodes == 3
    with pytest.raises(ResourceExistsError):
        client.begin_resize_pool("auto", {"targetDedicatedNodes": 1})


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
def test_a_pool_that_cannot_be_is_refused(service: Any, spec: dict[str, Any]) -> None:
    with pytest.raises(ServiceError) as caught:
        service.add_pool("p", **spec)
    assert caught.value.code == "InvalidPropertyValue"


def test_task_files_have_parts(run: Any, read: Any) -> None:
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
    address = f"{user}@{login.remote_login_ip_address}"
    return finished(
        [
            "ssh",
            "-Fnone",
            *options,
            "-i",
            str(key),
            "-p",
            str(login.remote_login_port),
            address,
            command,
        ]
    )


def test_a_user_logs_in_to_a_node_until_it_is_removed(
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


def test_a_pool_that_maps_no_port_lets_nobody_in(service: Any, client: Any) -> None:
    service.add_pool("closed", targetDedicatedNodes=1)
    with pytest.raises(ResourceExistsError):
        client.get_node_remote_login_settings("closed", service.node_ids("closed")[0])


def test_a_user_whose_time_is_over_does_not_log_in(need: Any, client: Any, ssh_key: Path) -> None:
    need("sshd", "openssh-server")
    user = {
        "name": "late",
        "sshPublicKey": ssh_key.with_suffix(".pub").read_text(),
        "expiryTime": "2020-01-01T00:00:00Z",
    }
    client.create_node_user("sim", ONE, user)
    login = client.get_node_remote_login_settings("sim", ONE)
    assert _ssh(login, "late", ssh_key, "true").returncode == 255


def test_a_person_takes_a_node_away_and_brings_it_back(
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


def test_a_person_lets_requests_go_wrong(
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
def test_a_fault_that_cannot_be_is_refused(
    capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    with pytest.raises(SystemExit) as caught:
        order(["fault", *words])
    assert caught.value.code == 2
    assert said in capsys.readouterr().err
