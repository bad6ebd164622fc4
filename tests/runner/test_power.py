"""`fairway nodes stop`, `start` and `report`, with a stand-in for Azure."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from clocks import Clock
from endings import ends, refused
from running import RunFairway
from targets import target_of

from fairway_cli.commands import targets
from fairway_core.catalog.faults import impact_categories, impact_category
from fairway_core.catalog.roles import built_in_roles
from fairway_core.machine import Machine
from fairway_runner.engines.engine import Node
from fairway_runner.engines.outage import TargetUnavailable
from fairway_runner.engines.slurm import SlurmEngine
from fairway_runner.live import management, operations
from fairway_simulator.azure import ControlPlane
from fairway_simulator.azure.cloud import NOBODY
from fairway_simulator.azure.resource_ids import ResourcePath
from fairway_simulator.azure.rights import all_of

GROUP = f"/subscriptions/{NOBODY}/resourceGroups/lab-rg-compute/providers/Microsoft.Compute"
BOX = f"{GROUP}/virtualMachines/lab-vm-box"


@pytest.fixture
def empty(tmp_path: Path, azure_alone: ControlPlane) -> ControlPlane:
    """Azure, and a project whose target `box` is a VM."""
    ssh = {"host": "10.40.0.4", "user": "azureuser", "shared": "/data", "machines": BOX}
    target = {"name": "box", "engine": "ssh", "nodes": {"min": 1, "max": 1}, "ssh": ssh}
    batch = {"name": "pool", "engine": "batch", "nodes": {"min": 0, "max": 1}}
    batch |= {"batch": {"pool": "pool"}}
    (tmp_path / "fairway.yaml").write_text(json.dumps({"targets": [target, batch]}))
    return azure_alone


@pytest.fixture
def plane(empty: ControlPlane) -> ControlPlane:
    """Azure that stops and starts the VM at once."""
    empty.give(f"{BOX}/deallocate", None, status=202, method="POST")
    empty.give(f"{BOX}/start", None, status=202, method="POST")
    empty.give(_path(empty), {"status": "Succeeded"})
    return empty


def _path(plane: ControlPlane) -> str:
    return plane.operation.removeprefix(f"https://{plane.host}")


def _asked(plane: ControlPlane) -> list[str]:
    return [
        target.partition("?")[0].rpartition("/")[2]
        for method, target, _ in plane.requests
        if method == "POST" and "/virtualMachines/" in target
    ]


def _runs(monkeypatch: pytest.MonkeyPatch, *runs: str) -> None:
    nodes = [Node("n1", "busy", run=run) for run in runs]
    monkeypatch.setattr(operations, "engine_for", lambda *_: SimpleNamespace(nodes=lambda: nodes))


def test_nodes_stop_returns_when_azure_is_done(
    here: RunFairway, plane: ControlPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    _runs(monkeypatch, "")
    plane.give(_path(plane), {"status": "InProgress"})
    looks = []

    def sleep(_: float) -> None:
        looks.append(1)
        if len(looks) == 3:
            plane.give(_path(plane), {"status": "Succeeded"})

    # The module `time` itself stays as it is: other threads sleep too.
    monkeypatch.setattr(management, "time", SimpleNamespace(sleep=sleep))
    code, out, errors = here("nodes", "stop", "box")
    assert (code, errors) == (0, "")
    assert "fairway nodes start box" in out
    assert len(looks) == 3
    code, out, _ = here("nodes", "start", "box", "--json")
    assert (code, json.loads(out)) == (0, {"target": "box", "action": "start"})
    assert _asked(plane) == ["deallocate", "start"]


@pytest.mark.parametrize("subscription", [False, True])
def test_nodes_stop_needs_a_role_on_the_machine_only(
    here: RunFairway, empty: ControlPlane, monkeypatch: pytest.MonkeyPatch, subscription: bool
) -> None:
    """docs/ssh.md says so. Operations belong to the subscription and are not readable then."""
    _runs(monkeypatch, "")
    Clock.of(monkeypatch, management)
    empty.store.put(ResourcePath(BOX), {"location": "westeurope", "properties": {}})
    role = built_in_roles()["Virtual Machine Contributor"]
    empty.rights = all_of(role, [NOBODY], f"/subscriptions/{NOBODY}" if subscription else BOX)
    assert here("nodes", "stop", "box")[0] == 0
    forbidden = [status for *_, status in empty.requests if status == 403]
    assert forbidden == ([] if subscription else [403])
    empty.rights = all_of(built_in_roles()["Reader"], [NOBODY], f"/subscriptions/{NOBODY}")
    ends(here("nodes", "start", "box"), 2, "Virtual Machine Contributor")


def test_nodes_start_waits_for_a_changing_machine_until_the_deadline(
    here: RunFairway, plane: ControlPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock.of(monkeypatch, management, now=0.0)
    plane.give(_path(plane), {"error": {"code": "AuthorizationFailed"}}, status=403)
    plane.give(BOX, {"properties": {"provisioningState": "Updating"}})
    done = here("nodes", "start", "box", "--deadline", "1m")
    ends(done, 5, "lab-vm-box is still `Updating` after 1m00s", "repeat the command", printed="")
    assert 60 <= clock.now < 100


def test_nodes_start_reports_the_failure_of_azure(here: RunFairway, plane: ControlPlane) -> None:
    error = {"code": "AllocationFailed", "message": "We do not have sufficient capacity"}
    plane.give(_path(plane), {"status": "Failed", "error": error})
    ends(here("nodes", "start", "box"), 5, "sufficient capacity")
    plane.give(f"{BOX}/start", {"error": error}, status=409, method="POST")
    ends(here("nodes", "start", "box"), 5, "sufficient capacity")
    plane.give(f"{BOX}/start", {"error": error}, status=404, method="POST")
    errors = here("nodes", "start", "box")[2]
    assert "the machines of `box` no longer exist" in errors
    assert "targets sync" in errors
    plane.give(f"{BOX}/start", {"error": error}, status=403, method="POST")
    done = here("nodes", "start", "box")
    ends(done, 2, "`: Azure refuses", "you may not start `box`", "Virtual Machine Contributor")


def test_nodes_stop_refuses_targets_without_vms_and_vms_with_runs(
    here: RunFairway, plane: ControlPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = here("nodes", "stop", "pool")
    ends(done, 2, "`pool` cannot be stopped and started", "fairway pool resize pool 0")
    assert here("nodes", "stop", "local")[0] == 2
    assert _asked(plane) == []
    _runs(monkeypatch, "train-1", "")
    ends(here("nodes", "stop", "box"), 3, "train-1")
    assert _asked(plane) == []
    assert here("nodes", "stop", "box", "--force")[0] == 0
    assert _asked(plane) == ["deallocate"]

    unreachable = TargetUnavailable.of("no-connection", "box cannot be reached", exit_code=5)
    monkeypatch.setattr(operations, "engine_for", Mock(side_effect=unreachable))
    done = here("nodes", "stop", "box")
    ends(done, 5, "it is not known what runs on `box`: box cannot be reached", "--force")
    assert _asked(plane) == ["deallocate"]


VM = (
    "/subscriptions/00000000-0000-0000-0000-000000000009/resourceGroups/lab-compute/providers"
    "/Microsoft.Compute/virtualMachineScaleSets/lab-vmss-nd/virtualMachines/7"
)
SLURM = target_of("slurm")


@pytest.fixture
def azure(azure_alone: ControlPlane, monkeypatch: pytest.MonkeyPatch) -> ControlPlane:
    """Azure, and a partition in which nd-0 is drained and nd-1 has no VM."""
    found = [
        Node("nd-0", "drained", reason="fairway: 7 of 8 GPUs", machine=Machine(VM, "aa", "DSM01")),
        Node("nd-1", "idle~"),
        Node("nd-2", "idle", machine=Machine(VM)),
    ]
    monkeypatch.setattr(SlurmEngine, "nodes", lambda _: found)
    monkeypatch.setattr("fairway_runner.targets.lookup.find_target", lambda _: SLURM)
    monkeypatch.setattr(operations, "_PAUSE", 0.01)
    return azure_alone


def report(*, node: str = "nd-0", timeout: str = "1s", **values: Any) -> None:
    facts = {"category": "HpcMissingGpu", "description": None, "json_": False, **values}
    targets.report("nd", node, timeout=timeout, **facts)


@pytest.mark.integration
def test_nodes_report_names_the_host_and_follows_the_answer_of_azure(
    azure: ControlPlane, capsys: pytest.CaptureFixture[str]
) -> None:
    azure.impacts.says("AcknowledgedUnhealthy", "NodeRemovedFromService")
    report(timeout="60s")
    ((path, sent),) = azure.impacts.reports.items()
    assert path.startswith("/subscriptions/00000000-0000-0000-0000-000000000009/providers/")
    assert sent["properties"].pop("startDateTime").endswith("Z")
    told = {"impactCategory": "Resource.Hpc.Unhealthy.HpcMissingGpu", "impactedResourceId": VM}
    told |= {"impactDescription": "fairway: 7 of 8 GPUs"}
    told |= {"additionalProperties": {"PhysicalHostName": "DSM01", "VmUniqueId": "aa"}}
    assert sent["properties"] == told
    assert "Azure has taken the host of nd-0 out of service" in capsys.readouterr().out


@pytest.mark.integration
def test_nodes_report_hints_at_registration_and_onboarding_of_a_subscription(
    azure: ControlPlane,
) -> None:
    azure.impacts.registered = False
    assert "az provider register --namespace Microsoft.Impact" in refused(report).hint
    azure.impacts.registered, azure.impacts.onboarded = True, False
    finding = refused(report, "accepts no Guest Health Report from subscription 0", 2)
    assert "ask your contact at Microsoft" in finding.hint
    assert azure.impacts.reports == {}


@pytest.mark.integration
def test_nodes_report_needs_exactly_the_role_that_it_names(azure: ControlPlane) -> None:
    roles, subscription = built_in_roles(), "/".join(VM.split("/")[:3])
    azure.impacts.says("NodeRemovedFromService")
    azure.rights = all_of(roles["Azure Impact Reporter"], [NOBODY], subscription)
    report()
    assert [status for *_, status in azure.requests if status == 403] == []
    assert len(azure.impacts.reports) == 1
    given = [
        all_of(roles["Reader"], [NOBODY], subscription),
        all_of(roles["Azure Impact Reporter"], [NOBODY], f"/subscriptions/{NOBODY}"),
        all_of(roles["Azure Impact Reporter"], ["another"], subscription),
    ]
    for rights in given:
        azure.rights = rights
        assert "Azure Impact Reporter" in refused(report).hint
    assert len(azure.impacts.reports) == 1


@pytest.mark.integration
@pytest.mark.parametrize(
    ("said", "id_", "words"),
    [
        (["TooManyRequests"], "report-refused", " (TooManyRequests): report "),
        (["AcknowledgedUnhealthy"], "no-answer", "Azure has not decided on the report "),
        ([], "no-answer", " after 0.1s: no answer"),
    ],
)
def test_nodes_report_fails_on_any_other_answer(
    azure: ControlPlane, capsys: pytest.CaptureFixture[str], said: list[str], id_: str, words: str
) -> None:
    azure.impacts.says(*said)
    finding = refused(lambda: report(timeout="0.1s", json_=True), code=5)
    assert (finding.id, words in finding.message, finding.hint != "") == (id_, True, True)
    assert json.loads(capsys.readouterr().out)["answer"] == (said[0] if said else None)


@pytest.mark.integration
@pytest.mark.parametrize(
    ("values", "id_"),
    [
        ({"node": "nd-9"}, "unknown-node"),
        ({"node": "nd-1"}, "unknown-vm"),
        ({"node": "nd-2"}, "no-description"),
        ({"category": "HpcMissingGPU"}, "unknown-impact-category"),
    ],
)
def test_nodes_report_with_unknown_facts_is_not_sent(
    azure: ControlPlane, values: dict[str, str], id_: str
) -> None:
    finding = refused(lambda: report(**values))
    assert finding.id == id_
    if id_ == "no-description":
        assert finding.message == "nd-2 is not drained, and no description of its fault is given"
        assert finding.hint == 'describe it, for example: --description "GPU 3 is lost"'
    assert azure.requests == []


@pytest.mark.integration
def test_impact_category_names_are_unique() -> None:
    names = impact_categories()
    assert len({impact_category(name) for name in names}) == len(names) == 28
    # Neither of these takes the host out of service.
    assert impact_category("Reset") == "Resource.Hpc.Reset"
    assert impact_category("Reboot") == "Resource.Hpc.Reboot"
