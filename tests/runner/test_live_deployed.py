"""Obstacles to a deployment that changes an environment: stopped machines, and roles assigned
by hand."""

import base64
import json
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from azure.core.exceptions import ClientAuthenticationError, ServiceRequestError
from endings import refused
from environment_files import KEY, load

from fairway_cli.commands import plans
from fairway_core.environment import Environment
from fairway_core.findings import Finding, Severity, UserError
from fairway_runner.live import operations, rules
from fairway_runner.live.azure_queries import ask_azure
from fairway_runner.live.management import Management, NotAllowed

ME, OTHER = "00000000-0000-0000-0000-00000000000a", "00000000-0000-0000-0000-00000000000b"
ROOT = "/subscriptions/11111111-2222-3333-4444-555555555555"
VMS = f"{ROOT}/resourceGroups/lab-rg-compute/providers/Microsoft.Compute/virtualMachines"
BOX = f"{VMS}/lab-vm-box"
STORAGE = f"{ROOT}/resourceGroups/lab-rg-data/providers/Microsoft.Storage/storageAccounts/labst"
BATCH = f"{ROOT}/resourceGroups/lab-rg-data/providers/Microsoft.Batch/batchAccounts/labba"
BLOBS, JOBS = "Storage Blob Data Contributor", "Azure Batch Data Contributor"
GUIDS = {BLOBS: "ba92f5b4-0000", JOBS: "6aaa78f1-0000"}
LAB = f"""\
name: lab
location: westeurope
access: {{ssh_keys: ["{KEY}"], users: [{{name: ada, keys: ["{KEY}"]}}]}}
storage: {{containers: {{outputs: {{}}}}}}
clusters:
  box: {{engine: ssh, size: Standard_NC24ads_A100_v4, nodes: 1}}
  pool: {{engine: batch, size: Standard_ND96asr_v4, nodes: 4}}
"""


@dataclass
class Azure:
    """A subscription after a deployment: resources by path, and parts of paths that are hidden."""

    found: dict[str, Any] = field(default_factory=dict)
    hidden: Sequence[str] = ()

    def get(self, path: str, _version: str, **_query: str) -> Any:
        if any(each in path for each in self.hidden):
            raise NotAllowed(path)
        return self.found.get(path)

    def pool_images(self, _endpoint: str) -> list[Any]:
        return []

    def list(self, path: str, version: str, **_query: str) -> list[dict[str, Any]]:
        return (self.get(path, version) or {}).get("value", [])  # type: ignore[no-any-return]

    def own_id(self) -> str:
        return ME

    def power(self, *states: str) -> None:
        codes = [{"code": f"PowerState/{state}"} for state in states]
        view = {"statuses": [{"code": "ProvisioningState/succeeded"}, *codes]}
        self.found[f"{BOX}/instanceView"] = view

    def give(self, scope: str, role: str, principal: str, reason: str = "") -> str:
        path = f"{scope}/providers/Microsoft.Authorization/roleAssignments"
        mine = {"scope": scope, "principalId": principal.upper(), "description": reason}
        mine["roleDefinitionId"] = f"{ROOT}/providers/Microsoft.Authorization/roles/{GUIDS[role]}"
        entry = {"id": f"{path}/{len(self.found)}", "properties": mine}
        self.found.setdefault(path, {"value": []})["value"].append(entry)
        return str(entry["id"])


@pytest.fixture
def azure() -> Any:
    """A subscription with the deployed environment, all of it running."""
    mine = {"tags": {"environment": "lab"}}
    others = {"tags": {"environment": "other"}}
    roles = [{"name": id_, "properties": {"roleName": name}} for name, id_ in GUIDS.items()]
    vms = [{"id": f"{VMS}/x", "name": "lab-vm-box", **others}]
    there = {
        "Compute/virtualMachines": [*vms, {"id": BOX, "name": "lab-vm-box", **mine}],
        "Storage/storageAccounts": [{"id": f"{STORAGE}2", **others}, {"id": STORAGE, **mine}],
        "Batch/batchAccounts": [{"id": BATCH, **mine}],
        "Authorization/roleDefinitions": roles,
    }
    found = Azure({f"providers/Microsoft.{kind}": {"value": of} for kind, of in there.items()})
    found.power("running")
    return found


def _found(environment: Environment, azure: Any, id_: str) -> list[Finding]:
    return [each for each in ask_azure(environment, azure)[0] if each.id == id_]


def test_live_check_reports_a_stopped_vm_with_the_command_that_starts_it(
    tmp_path: Path, azure: Azure
) -> None:
    lab = load(tmp_path, LAB)
    for states in (["running"], ["starting"], []):
        azure.power(*states)
        assert _found(lab, azure, "stopped-machine") == [], states
    for state in ("deallocated", "deallocating", "stopped"):
        azure.power(state)
        (finding,) = _found(lab, azure, "stopped-machine")
        assert finding.message.startswith(
            "`box` is stopped, and Azure cannot change the extensions"
        )
        assert (finding.hint, finding.path) == ("fairway nodes start box", "clusters.box")
        assert finding.severity is Severity.WARNING
    alone = load(tmp_path, LAB.replace(f', users: [{{name: ada, keys: ["{KEY}"]}}]', ""))
    assert _found(alone, azure, "stopped-machine") == [], "it has no extension"
    azure.hidden = ["virtualMachines"]
    (hidden,) = [each for each in _found(lab, azure, "not-allowed") if "stopped" in each.message]
    assert "whether VMs are stopped was not checked" in hidden.message


class TestRoles:
    CONTAINER = f"{STORAGE}/blobServices/default/containers/outputs"

    def test_live_check_reports_a_role_assigned_by_hand_with_two_solutions(
        self, tmp_path: Path, azure: Azure
    ) -> None:
        lab = load(tmp_path, LAB)
        assert _found(lab, azure, "role-given-already") == []
        first = azure.give(self.CONTAINER, BLOBS, ME)
        second = azure.give(BATCH, JOBS, ME, "somebody asked for it")
        blobs, jobs = _found(lab, azure, "role-given-already")
        message = (
            f"the account that deploys already has the role {BLOBS} on `outputs`, assigned by hand"
        )
        assert blobs.message == message
        assert f"az role assignment delete --ids {first}\n" in blobs.hint
        address = "azurerm_role_assignment.container-outputs-used-by-deployer"
        said = f"terraform -chdir=cdktf.out/stacks/lab-data import '{address}' {first}"
        assert said in blobs.hint
        assert f"'azurerm_role_assignment.batch-used-by-deployer' {second}" in jobs.hint
        assert blobs.severity is Severity.ERROR

    def test_live_check_ignores_unrelated_role_assignments(
        self, tmp_path: Path, azure: Azure
    ) -> None:
        azure.give(self.CONTAINER, BLOBS, OTHER)
        azure.give(self.CONTAINER, JOBS, ME)
        path = f"{self.CONTAINER}/providers/Microsoft.Authorization/roleAssignments"
        inherited = azure.found[path]["value"][0]["properties"]
        inherited |= {"principalId": ME, "scope": STORAGE}  # Azure lists inherited roles too
        assert _found(load(tmp_path, LAB), azure, "role-given-already") == []
        reason = "Reads and writes the container outputs; deployed this first"
        azure.give(self.CONTAINER, BLOBS, OTHER, reason)
        azure.give(self.CONTAINER, BLOBS, ME)  # by hand; Terraform assigns none to this account
        azure.give(BATCH, JOBS, ME, "Submits jobs; deployed this first")
        assert _found(load(tmp_path, LAB), azure, "role-given-already") == []
        for kind in ("Storage/storageAccounts", "Batch/batchAccounts"):
            azure.found[f"providers/Microsoft.{kind}"] = {"value": []}
        azure.give(self.CONTAINER, BLOBS, ME)
        azure.hidden = ["roleAssignments"]
        lab = load(tmp_path, LAB)
        assert _found(lab, azure, "role-given-already") == []
        assert not [e for e in _found(lab, azure, "not-allowed") if "roles" in e.message]

    def test_live_check_finds_roles_of_researchers_by_their_ids(
        self, tmp_path: Path, azure: Azure
    ) -> None:
        azure.give(self.CONTAINER, BLOBS, ME)
        azure.give(self.CONTAINER, BLOBS, OTHER)
        text = LAB.replace("access: {", f"access: {{researchers: [{OTHER}], ")
        (found,) = _found(load(tmp_path, text), azure, "role-given-already")
        assert found.message.startswith(f"`{OTHER}` already has the role")
        assert f"container-outputs-used-by-{OTHER}'" in found.hint
        # Roles that Terraform assigned to other researchers do not count for a new one.
        text = LAB.replace("access: {", f"access: {{researchers: [{ME}, {OTHER}], ")
        reason = "Submits jobs; named under access.researchers"
        azure.give(BATCH, JOBS, ME, reason)
        given = azure.give(BATCH, JOBS, OTHER)
        found = _found(load(tmp_path, text), azure, "role-given-already")
        (jobs,) = [each for each in found if "batch-used-by" in each.hint]
        assert f"'azurerm_role_assignment.batch-used-by-{OTHER}' {given}" in jobs.hint
        nobody = load(tmp_path, LAB.replace("access: {", "access: {researchers: [], "))
        assert _found(nobody, azure, "role-given-already") == []

    @pytest.mark.parametrize(
        ("token", "found"),
        [
            (f"e30.{base64.urlsafe_b64encode(json.dumps({'oid': ME}).encode()).decode()}.s", ME),
            ("e30.e30.s", ""),
            ("opaque", ""),
            ("a.!!.b", ""),
            ("a.W10.b", ""),
        ],
    )
    def test_management_own_id_is_read_from_the_token(self, token: str, found: str) -> None:
        credential = SimpleNamespace(get_token=lambda _: SimpleNamespace(token=token))
        azure = Management(SimpleNamespace(scope="s"), credential, "s")  # type: ignore[arg-type]
        assert azure.own_id() == found

    @pytest.mark.parametrize(
        ("error", "said", "hint"),
        [
            (ClientAuthenticationError("AADSTS700082: expired"), "Azure", "az login"),
            (ServiceRequestError("no route to login"), "does not answer: no route", "try again"),
        ],
    )
    def test_management_own_id_without_a_token_reports_the_reason(
        self, error: Exception, said: str, hint: str
    ) -> None:
        credential = SimpleNamespace(get_token=Mock(side_effect=error))
        azure = Management(SimpleNamespace(scope="s"), credential, "s")  # type: ignore[arg-type]
        finding = refused(lambda: azure.own_id())
        assert said in finding.message
        assert hint in finding.hint


def _change(type_: str, address: str, actions: list[str], **values: Any) -> dict[str, Any]:
    before = None if actions == ["create"] else values
    after = None if actions == ["delete"] else values
    change = {"actions": actions, "before": before, "after": after}
    return {"type": type_, "address": address, "change": change}


_VM, _EXTENSION = "azurerm_linux_virtual_machine", "azurerm_virtual_machine_extension"


def _plan(vm: list[str], extension: list[str], address: str = "cluster-box") -> dict[str, Any]:
    changes = [
        _change(_VM, f"{_VM}.{address}", vm, id=BOX),
        _change(_EXTENSION, f"{_EXTENSION}.people", extension, virtual_machine_id=BOX),
    ]
    return {"resource_changes": changes}


class TestPlan:
    @pytest.fixture(autouse=True)
    def _subscription(self, azure: Azure, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(rules, "signed_in_to", lambda _: nullcontext(azure))
        azure.power("deallocated")

    @pytest.mark.parametrize(
        ("vm", "extension", "refused"),
        [
            (["no-op"], ["update"], True),
            (["no-op"], ["create"], True),
            (["update"], ["delete"], True),
            (["no-op"], ["delete", "create"], True),
            (["no-op"], ["no-op"], False),
            (["delete", "create"], ["delete", "create"], False),  # the new VM runs
            (["delete"], ["delete"], False),
            (["create"], ["create"], False),
        ],
    )
    def test_plan_check_finds_changes_of_a_stopped_machine(
        self, vm: list[str], extension: list[str], refused: bool
    ) -> None:
        found = rules.stopped_machines(_plan(vm, extension))
        assert [each.name for each in found] == ["box"] * refused

    def test_plan_check_hints_at_az_for_the_scheduler_and_skips_hidden_or_running_vms(
        self, azure: Azure
    ) -> None:
        (found,) = rules.stopped_machines(_plan(["no-op"], ["update"], "slurm-scheduler"))
        assert found.finding.message.startswith("`lab-vm-box` is stopped")
        assert found.finding.hint == f"az vm start --ids {BOX}"
        azure.hidden = ["instanceView"]
        assert rules.stopped_machines(_plan(["no-op"], ["update"])) == []
        azure.hidden = []
        azure.power("running")
        assert rules.stopped_machines(_plan(["no-op"], ["update"])) == []
        assert rules.stopped_machines({}) == []

    def test_plan_check_starts_stopped_machines_on_consent_and_fails_otherwise(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        for ask in (None, lambda _: False):
            with pytest.raises(UserError, match="`box` is stopped") as refused:
                plans._have_machines_run(_plan(["no-op"], ["update"]), ask)
            assert refused.value.findings[0].hint == "fairway nodes start box"
            assert refused.value.exit_code == 2
        started, questions = [], []
        monkeypatch.setattr(operations, "act", lambda *words: started.append(words))

        def ask(question: str) -> bool:
            questions.append(question)
            return True

        plans._have_machines_run(_plan(["no-op"], ["update"]), ask)
        assert started == [("box", BOX, "start")]
        assert questions[0].endswith("Start it now?")
        plans._have_machines_run(_plan(["no-op"], ["no-op"]), ask)
        assert len(questions) == 1
        (tmp_path / "plan.json").write_text(json.dumps(_plan(["no-op"], ["update"])))
        (tmp_path / "log.json").write_text("Error: no inputs")
        files = [tmp_path / "log.json", tmp_path / "plan.json"]
        (found,) = plans._of_stopped_machines(files)
        assert (found.id, found.severity) == ("stopped-machine", Severity.WARNING)
