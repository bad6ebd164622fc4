"""`fairway nodes report`: Guest Health Reports, from a stand-in of Azure on loopback."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from fairway_cli.commands import targets
from fairway_core.catalog.faults import impact_categories, impact_category
from fairway_core.catalog.roles import built_in_roles
from fairway_core.findings import UserError
from fairway_core.machine import Machine
from fairway_core.target import Target
from fairway_runner.engines.engine import Node
from fairway_runner.engines.slurm.engine import SlurmEngine
from fairway_runner.live import operations
from fairway_simulator.azure import ControlPlane
from fairway_simulator.azure.cloud import NOBODY
from fairway_simulator.azure.rights import all_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.integration

VM = (
    "/subscriptions/00000000-0000-0000-0000-000000000009/resourceGroups/lab-compute/providers"
    "/Microsoft.Compute/virtualMachineScaleSets/lab-vmss-nd/virtualMachines/7"
)
SLURM = Target.model_validate(
    {
        "name": "nd",
        "engine": "slurm",
        "nodes": {"min": 0, "max": 4},
        "slurm": {"host": "192.0.2.1", "user": "me", "partition": "nd", "shared": "/data/fairway"},
    }
)


@pytest.fixture
def plane(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ControlPlane]:
    """Azure, and a partition of which nd-0 is drained and nd-1 has no VM."""
    found = [
        Node("nd-0", "drained", reason="fairway: 7 of 8 GPUs", machine=Machine(VM, "aa", "DSM01")),
        Node("nd-1", "idle~"),
        Node("nd-2", "idle", machine=Machine(VM)),
    ]
    monkeypatch.setattr(SlurmEngine, "nodes", lambda _: found)
    monkeypatch.setattr("fairway_runner.targets.lookup.find_target", lambda _: SLURM)
    monkeypatch.setattr(operations, "_PAUSE", 0.01)
    with ControlPlane(tmp_path) as plane:
        for name, text in plane.environment().items():
            monkeypatch.setenv(name, text)
        yield plane


def report(*, node: str = "nd-0", timeout: str = "1s", **values: Any) -> None:
    facts = {"category": "HpcMissingGpu", "description": None, "json_": False, **values}
    targets.report("nd", node, timeout=timeout, **facts)


def test_the_host_is_named_and_azures_answer_followed(
    plane: ControlPlane, capsys: pytest.CaptureFixture[str]
) -> None:
    plane.impacts.says("AcknowledgedUnhealthy", "NodeRemovedFromService")
    report(timeout="60s")
    ((path, sent),) = plane.impacts.reports.items()
    assert path.startswith("/subscriptions/00000000-0000-0000-0000-000000000009/providers/")
    assert sent["properties"].pop("startDateTime").endswith("Z")
    assert sent["properties"] == {
        "impactCategory": "Resource.Hpc.Unhealthy.HpcMissingGpu",
        "impactDescription": "fairway: 7 of 8 GPUs",
        "impactedResourceId": VM,
        "additionalProperties": {"PhysicalHostName": "DSM01", "VmUniqueId": "aa"},
    }
    assert "Azure has taken the host of nd-0 out of service" in capsys.readouterr().out


def test_a_subscription_that_is_not_onboarded_is_said_to_be_so(plane: ControlPlane) -> None:
    plane.impacts.registered = False
    with pytest.raises(UserError) as raised:
        report()
    assert "az provider register --namespace Microsoft.Impact" in raised.value.findings[0].hint
    plane.impacts.registered, plane.impacts.onboarded = True, False
    with pytest.raises(
        UserError, match="accepts no Guest Health Report from subscription 0"
    ) as raised:
        report()
    assert "ask your contact at Microsoft" in raised.value.findings[0].hint
    assert raised.value.exit_code == 2
    assert plane.impacts.reports == {}


def test_the_role_that_is_named_files_and_follows_and_no_other_does(plane: ControlPlane) -> None:
    roles, subscription = built_in_roles(), "/".join(VM.split("/")[:3])
    plane.impacts.says("NodeRemovedFromService")
    plane.rights = all_of(roles["Azure Impact Reporter"], [NOBODY], subscription)
    report()
    assert [status for *_, status in plane.requests if status == 403] == []
    assert len(plane.impacts.reports) == 1
    given = [
        all_of(roles["Reader"], [NOBODY], subscription),
        all_of(roles["Azure Impact Reporter"], [NOBODY], f"/subscriptions/{NOBODY}"),
        all_of(roles["Azure Impact Reporter"], ["another"], subscription),
    ]
    for rights in given:
        plane.rights = rights
        with pytest.raises(UserError) as raised:
            report()
        assert "Azure Impact Reporter" in raised.value.findings[0].hint
    assert len(plane.impacts.reports) == 1


@pytest.mark.parametrize(
    ("said", "id_", "words"),
    [
        (["TooManyRequests"], "report-refused", " (TooManyRequests): report "),
        (["AcknowledgedUnhealthy"], "no-answer", "Azure has not decided on the report "),
        ([], "no-answer", " after 0.1s: no answer"),
    ],
)
def test_any_other_answer_is_a_failure(
    plane: ControlPlane, capsys: pytest.CaptureFixture[str], said: list[str], id_: str, words: str
) -> None:
    plane.impacts.says(*said)
    with pytest.raises(UserError) as raised:
        report(timeout="0.1s", json_=True)
    assert (raised.value.findings[0].id, raised.value.exit_code) == (id_, 5)
    assert words in raised.value.findings[0].message
    assert raised.value.findings[0].hint
    assert json.loads(capsys.readouterr().out)["answer"] == (said[0] if said else None)


@pytest.mark.parametrize(
    ("values", "id_"),
    [
        ({"node": "nd-9"}, "unknown-node"),
        ({"node": "nd-1"}, "unknown-vm"),
        ({"node": "nd-2"}, "no-description"),
        ({"category": "HpcMissingGPU"}, "unknown-impact-category"),
    ],
)
def test_node_report_with_unknown_facts_is_not_sent(
    plane: ControlPlane, values: dict[str, str], id_: str
) -> None:
    with pytest.raises(UserError) as raised:
        report(**values)
    (finding,) = raised.value.findings
    assert finding.id == id_
    if id_ == "no-description":
        assert finding.message == "nd-2 is not drained, and no description of its fault is given"
        assert finding.hint == 'describe it, for example: --description "GPU 3 is lost"'
    assert plane.requests == []


def test_every_category_has_one_name() -> None:
    names = impact_categories()
    assert len({impact_category(name) for name in names}) == len(names) == 28
    # Neither of these takes the host out of service.
    assert impact_category("Reset") == "Resource.Hpc.Reset"
    assert impact_category("Reboot") == "Resource.Hpc.Reboot"
