"""Clusters that are stopped by a schedule, or stop themselves when idle."""

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from environment_files import KEY
from programs import executable, finished
from ruamel.yaml import YAML
from tests.stacks.documents import Written, boot_data, files_at_boot, files_of, package_of

from fairway_core.findings import UserError
from fairway_simulator.azure import ControlPlane
from fairway_simulator.azure.cloud import NOBODY, token_response
from fairway_simulator.azure.deployment import Deployment, machine_body, scale_set_body
from fairway_simulator.azure.imds import MetadataService
from fairway_simulator.azure.logic_app import LogicApp
from fairway_simulator.azure.resource_ids import ResourcePath
from fairway_simulator.http import Request

HEAD = f"""\
name: lab
location: westeurope
access: {{ssh_keys: ['{KEY}']}}
filesystems:
  data: {{kind: nfs_server, path: /data}}
clusters:"""
LAB = f"""\
{HEAD}
  box:
    engine: ssh
    size: Standard_NC40ads_H100_v5
    nodes: 1
    schedule: {{stop: "20:15", start: "08:00", timezone: Europe/Berlin}}
  pair:
    engine: ssh
    size: Standard_HB176rs_v4
    nodes: 2
    os_disk: managed
    mounts: [data]
    schedule: {{stop: "19:00", days: [Saturday]}}
  free: {{engine: ssh, size: Standard_NC40ads_H100_v5, nodes: 1}}
  nd: {{engine: ssh, size: Standard_ND96isr_H100_v5, nodes: 2, mounts: [data]}}
"""


def _workflow(deployment: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns the definition of the Logic App and the values of its template's parameters."""
    (app,) = json.loads(deployment["template_content"])["resources"]
    assert app["type"] == "Microsoft.Logic/workflows"
    values = json.loads(deployment["parameters_content"])
    return app["properties"]["definition"], {key: each["value"] for key, each in values.items()}


def test_schedule_has_a_logic_app_for_each_stop_and_start(written: Written) -> None:
    resources = written(LAB)["compute"]["resource"]
    deployments = resources["azurerm_resource_group_template_deployment"]
    assert set(deployments) == {"schedule-box-stop", "schedule-box-start", "schedule-pair-stop"}
    recurrences = {}
    for name, deployment in deployments.items():
        (trigger,) = _workflow(deployment)[0]["triggers"].values()
        recurrences[name] = trigger["recurrence"]
        # A past start waits for the next time; with an offset, Azure would ignore the time zone.
        start = datetime.fromisoformat(trigger["recurrence"]["startTime"])
        assert start.tzinfo is None
        assert start < datetime.now()  # noqa: DTZ005
    assert recurrences["schedule-box-stop"]["timeZone"] == "W. Europe Standard Time"
    week = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday"]
    at = {"weekDays": week, "hours": [20], "minutes": [15]}
    assert recurrences["schedule-box-stop"]["schedule"] == at
    assert recurrences["schedule-pair-stop"]["schedule"]["weekDays"] == ["Saturday"]
    definition, values = _workflow(deployments["schedule-box-stop"])
    asked: list[dict[str, Any]] = []
    app = LogicApp(definition, lambda inputs: asked.append(dict(inputs)) or 200)
    assert app.run() == "Succeeded"
    (inputs,) = asked
    assert inputs["method"] == "POST"
    assert "/deallocate?api-version=" in inputs["uri"]
    assert values["machines"] == "${azurerm_linux_virtual_machine.cluster-box.id}"
    assert values["name"] == "lab-logic-box-stop"
    assert "scale_set" in _workflow(deployments["schedule-pair-stop"])[1]["machines"]


def _granted(resources: dict[str, Any], prefix: str) -> dict[str, str]:
    """Returns scopes of the role assignments whose ids start with the prefix."""
    grants = resources["azurerm_role_assignment"].items()
    return {name: grant["scope"] for name, grant in grants if name.startswith(prefix)}


def test_schedule_identity_may_stop_and_start_its_machines_only(written: Written) -> None:
    resources = written(LAB)["compute"]["resource"]
    (permissions,) = resources["azurerm_role_definition"]["schedule-role"]["permissions"]
    verbs = {action.rpartition("Microsoft.Compute/")[2] for action in permissions["actions"]}
    wanted = {"read", "start/action", "deallocate/action"}
    assert {verb.partition("/")[2] for verb in verbs} == wanted
    grants = _granted(resources, "schedule-")
    assert set(grants) == {"schedule-box", "schedule-pair"}
    assert grants["schedule-box"] == f"${{{_VM}.cluster-box.id}}"


def test_schedule_identity_may_read_the_operations_it_started(
    written: Written, tmp_path: Path
) -> None:
    """A Logic App polls the operation with its own identity; a forbidden poll fails the run."""
    with ControlPlane(tmp_path) as plane:
        deployed = Deployment(written(LAB), plane.host)
        identity = deployed.resource("azurerm_user_assigned_identity", "schedule-id")
        principal = deployed.principal_of(identity.id)
        token = token_response(NOBODY, f"https://{plane.host}/", principal)["access_token"]
        headers = {"authorization": f"Bearer {token}"}
        plane.rights = deployed.rights
        for type_, key in (("", "cluster-box"), ("_scale_set", "cluster-pair")):
            machines = deployed.resource(f"azurerm_linux_virtual_machine{type_}", key).id
            plane.store.put(ResourcePath(machines), {"properties": {}})
            for action in ("deallocate", "start"):
                status, started = plane.handle(Request("POST", f"{machines}/{action}", headers))
                assert status == 202
                status, operation = plane.handle(Request("GET", started.path, headers))
                assert (status, operation) == (200, {"status": "Succeeded"})
        free = deployed.resource("azurerm_linux_virtual_machine", "cluster-free").id
        assert plane.handle(Request("POST", f"{free}/deallocate", headers))[0] == 403


@pytest.mark.parametrize(
    ("busy", "ends", "minutes"), [(0, "Succeeded", 0), (3, "Succeeded", 15), (99, "Failed", 30)]
)
def test_schedule_retries_busy_machine_and_fails_after_the_last_retry(
    written: Written, tmp_path: Path, busy: int, ends: str, minutes: int
) -> None:
    deployments = written(LAB)["compute"]["resource"]["azurerm_resource_group_template_deployment"]
    with ControlPlane(tmp_path) as plane:
        deployed = Deployment(written(LAB), plane.host)
        machines = deployed.resource("azurerm_linux_virtual_machine", "cluster-box").id
        plane.store.put(ResourcePath(machines), {"properties": {}})
        token = token_response(NOBODY, f"https://{plane.host}/")["access_token"]
        headers = {"authorization": f"Bearer {token}"}
        plane.compute.busy = busy

        def send(inputs: Mapping[str, Any]) -> int:
            action = re.search(r"'(/[a-z]+)\?", inputs["uri"])
            assert action is not None
            return plane.handle(Request("POST", f"{machines}{action[1]}", headers))[0]

        app = LogicApp(_workflow(deployments["schedule-box-stop"])[0], send)
        assert (app.run(), app.minutes) == (ends, minutes)


def test_schedule_failure_raises_an_alert_with_monitoring(written: Written) -> None:
    assert "azurerm_monitor_metric_alert" not in written(LAB)["compute"]["resource"]
    watched = written(LAB + "monitoring: {emails: [a@example.com]}\n")["compute"]["resource"]
    alerts = watched["azurerm_monitor_metric_alert"]
    assert set(alerts) == {
        "box-stop-failed-alert",
        "box-start-failed-alert",
        "pair-stop-failed-alert",
    }
    alert = alerts["box-stop-failed-alert"]
    (criterion,) = alert["criteria"]
    assert (criterion["metric_name"], criterion["aggregation"]) == ("RunsFailed", "Total")
    address = "azurerm_resource_group_template_deployment.schedule-box-stop.output_content"
    assert alert["scopes"] == [f"${{jsondecode({address}).id.value}}"]


def test_schedule_removed_deletes_its_logic_app(written: Written) -> None:
    stacks = written(LAB)
    deletes = {}
    for role in ("compute", "data"):
        (provider,) = stacks[role]["provider"]["azurerm"]
        template = provider["features"]["template_deployment"]
        deletes[role] = template["delete_nested_items_during_deletion"]
    assert deletes == {"compute": True, "data": False}, "a key stays with its vault"
    without = written(LAB.replace("schedule:", "# schedule:"))["compute"]["resource"]
    assert "azurerm_resource_group_template_deployment" not in without
    assert "azurerm_role_definition" not in without


def test_targets_list_machines_that_keep_their_disks(written: Written) -> None:
    records = written(LAB)["compute"]["output"]["targets"]["value"]
    machines = {record["name"]: record["ssh"].get("machines", "") for record in records}
    assert machines["nd"] == ""
    assert all(machines[name] for name in ("box", "pair", "free"))


def test_targets_list_other_nodes_with_the_same_shared_folder(written: Written) -> None:
    more = LAB.replace("nodes: 2, mounts: [data]}", "nodes: 9, mounts: [data]}")
    records = written(more)["compute"]["output"]["targets"]["value"]
    others = {record["name"]: record["ssh"]["others"] for record in records}
    assert [len(others[name]) for name in ("box", "free", "pair", "nd")] == [0, 0, 1, 3]
    address = "data.azurerm_virtual_machine_scale_set.instances-nd.instances[1].private_ip_address"
    assert others["nd"][0] == f'${{try({address}, "")}}'


IDLE = f"""\
{HEAD}
  box: {{engine: ssh, size: Standard_NC40ads_H100_v5, nodes: 1, idle: 2h}}
  pair:
    engine: ssh
    size: Standard_HB176rs_v4
    nodes: 2
    os_disk: managed
    mounts: [data]
    idle: 30m
  free: {{engine: ssh, size: Standard_NC40ads_H100_v5, nodes: 1}}
"""
_VM, _SET = "azurerm_linux_virtual_machine", "azurerm_linux_virtual_machine_scale_set"
# Nobody is logged in.
_LOGINCTL = "#!/bin/sh\n"


def test_idle_stop_role_allows_deallocation_of_its_machines_only(written: Written) -> None:
    resources = written(IDLE)["compute"]["resource"]
    (role,) = resources["azurerm_role_definition"].values()
    verbs = {each.rpartition("/")[0] for each in role["permissions"][0]["actions"]}
    assert verbs == {
        "Microsoft.Compute/virtualMachines/deallocate",
        "Microsoft.Compute/virtualMachineScaleSets/deallocate",
    }
    assert _granted(resources, "idle-") == {
        "idle-box": f"${{{_VM}.cluster-box.id}}",
        "idle-pair": f"${{{_SET}.cluster-pair.id}}",
    }
    without = written(IDLE.replace(", idle: 2h", "").replace("    idle: 30m\n", ""))["compute"]
    assert "azurerm_role_definition" not in without["resource"]


IDLE_SETTINGS: dict[str, dict[str, Any]] = {
    "box": {"after": 7200.0, "folder": "/home/azureuser/fairway", "mount": "", "others": False},
    "pair": {"after": 1800.0, "folder": "/data/fairway", "mount": "/data", "others": True},
}


@pytest.mark.parametrize("cluster", IDLE_SETTINGS)
def test_idle_stop_boot_data_stops_the_machine(
    written: Written, tmp_path: Path, cluster: str
) -> None:
    """Runs the program of the boot data without any other part of Fairway, with the role that the
    stack assigns to the machine's identity."""
    with ControlPlane(tmp_path) as plane:
        deployed = Deployment(written(IDLE), plane.host)
        machine = deployed.resource(_VM if cluster == "box" else _SET, f"cluster-{cluster}")
        body = machine_body(machine) if cluster == "box" else scale_set_body(machine)
        plane.store.put(ResourcePath(machine.id), body)
        plane.rights = deployed.rights
        files = files_of(deployed.boot_data(machine))
        with package_of(files) as tar:
            tar.extractall(tmp_path / "lib", filter="data")
        settings = json.loads(files["/etc/fairway/idle.json"])
        assert settings.items() >= IDLE_SETTINGS[cluster].items()
        settings |= {"arm": f"https://{plane.host}", "folder": str(tmp_path), "mount": ""}
        own = machine.id if cluster == "box" else f"{machine.id}/virtualMachines/0"
        with MetadataService(plane.store, own) as metadata:
            done = _run(tmp_path, settings, plane, metadata.url)
            assert done.stdout.startswith("fairway-idle: idle for 0 of"), done.stderr
            assert plane.requests == []
            then = time.clock_gettime(time.CLOCK_BOOTTIME) - settings["after"] - 60
            (tmp_path / "run" / "used").write_text(json.dumps(then))
            if cluster == "pair":
                hosts = tmp_path / "clusters" / "pair" / "hosts"
                hosts.mkdir(parents=True)
                (hosts / os.uname().nodename).write_text("10.40.0.4\n")
            done = _run(tmp_path, settings, plane, metadata.url)
            assert done.stdout.endswith(": it stops\n"), done.stderr
            ((method, path, status),) = plane.requests
            stopped = "POST", f"{machine.id}/deallocate", 202
            assert (method, path.partition("?")[0], status) == stopped
            plane.rights = deployed.rights.without(f"idle-{cluster}")
            done = _run(tmp_path, settings, plane, metadata.url)
            assert "Azure does not stop this machine" in done.stderr
            assert done.returncode == 1


def test_idle_stop_timer_checks_the_queue_every_minute(written: Written) -> None:
    compute = written(IDLE)["compute"]["resource"]
    boot = boot_data(compute[_VM]["cluster-box"])
    files = files_of(boot)
    assert "OnUnitInactiveSec=1min" in files["/etc/systemd/system/fairway-idle.timer"]
    service = files["/etc/systemd/system/fairway-idle.service"]
    assert "User=azureuser\n" in service
    (package,) = (path for path in files if path.endswith(".tar.bz2"))
    folder = package.rpartition("/")[0]
    assert f"Environment=PYTHONPATH={folder}\n" in service
    commands = YAML(typ="safe", pure=True).load(boot)["runcmd"]
    assert ["python3", "-m", "tarfile", "-e", package, folder] in commands
    assert ["systemctl", "enable", "--now", "fairway-idle.timer"] in commands
    assert "idle" not in boot_data(compute[_VM]["cluster-free"])
    people = f"users: [{{name: ada, keys: ['{KEY}']}}]"
    compute = written(IDLE.replace("access: {", f"access: {{{people}, "))["compute"]["resource"]
    files = files_at_boot(compute[_VM]["cluster-box"])
    settings = json.loads(files["/etc/fairway/idle.json"])
    assert (settings["folder"], settings["mount"]) == ("/var/lib/fairway-queue", "")


def _run(
    folder: Path, settings: dict[str, Any], plane: ControlPlane, metadata: str
) -> subprocess.CompletedProcess[str]:
    (folder / "bin").mkdir(exist_ok=True)
    (folder / "run").mkdir(exist_ok=True)
    executable(folder / "bin" / "loginctl", _LOGINCTL)
    (folder / "idle.json").write_text(json.dumps(settings))
    words = [sys.executable, "-B", "-m", "fairway_boot.idle_stop"]
    return finished(
        [*words, str(folder / "idle.json"), str(folder / "run")],
        env={
            "PATH": f"{folder / 'bin'}:/usr/bin:/bin",
            "PYTHONPATH": str(folder / "lib"),
            "FAIRWAY_METADATA_URL": metadata,
            "SSL_CERT_FILE": str(plane.authority),
        },
        cwd=folder,
    )


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("idle: 2h", "idle: 5m", "nodes can stop after 10 idle minutes at the earliest"),
        ("idle: 2h", "idle: 90s", "nodes can stop after 10 idle minutes at the earliest"),
        ("idle: 2h", "idle: 630s", "in whole minutes"),
        ("idle: 2h", "idle: soon", "is not a span of time"),
        ("    os_disk: managed\n", "    os_disk: local\n", "loses its system disk"),
        ("    idle: 30m", "    idle: 30m\n    repair: {}", "leave `repair:` or `idle:` out"),
        (
            "    idle: 30m",
            "    idle: 30m\n    image: almalinux-hpc-9",
            "needs Python 3.10, and `almalinux-hpc-9` has an older one",
        ),
        (
            "  free: {engine: ssh,",
            "  free: {engine: slurm, idle: 1h, mounts: [data],",
            "set when Slurm deletes idle nodes: `slurm: {idle: 10m}`",
        ),
        (
            "  free: {engine: ssh,",
            "  free: {engine: batch, idle: 1h,",
            "`nodes: {min: 0, max: 8}` with `autoscale: pending_tasks`",
        ),
        (
            "filesystems:\n  data: {kind: nfs_server, path: /data}",
            "network: {egress: none}\nfilesystems:\n  data: {kind: azure_files, path: /data}",
            "could not ask Azure to stop it, as `egress: none` blocks that",
        ),
    ],
)
def test_idle_stop_settings_that_are_invalid_are_refused_at_their_line(
    written: Written, old: str, new: str, said: str
) -> None:
    assert old in IDLE
    with pytest.raises(UserError) as refused:
        written(IDLE.replace(old, new))
    finding = refused.value.findings[0]
    assert said in f"{finding.message} {finding.hint}"
    assert finding.location is not None
