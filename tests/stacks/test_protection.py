"""Protection of resources with data in every environment, and its removal as in
docs/teardown.md."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.stacks.documents import ENVIRONMENTS, FILES, Stacks, Written

from fairway_core.catalog.terraform_types import holds_data, is_nested
from fairway_core.review.plan import ROLES

OPEN = [file for file in FILES.values() if "protect: false\n" in file.read_text()]

# Types that can be recreated from the environment file alone. A type that is neither here
# nor known to hold data must be added to one of the two lists.
HOLDS_NOTHING = re.compile(
    r"terraform_data|azurerm_(resource_group|management_lock|role_assignment|role_definition"
    r"|user_assigned_identity|federated_identity_credential|resource_group_template_deployment"
    r"|(linux_)?virtual_(machine|network)(_.+)?|network_.+|subnet(_.+)?|public_ip|nat_gateway(_.+)?"
    r"|route_table|netapp_(account|pool)"
    r"|bastion_host|private_.+|application_security_group|proximity_placement_group"
    r"|marketplace_agreement|batch_.+|monitor_.+|log_analytics_.+|consumption_.+"
    r"|storage_management_policy|backup_.+|kubernetes_.+|storage_blob)"
)


def _resources(stack: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for kind, instances in stack["resource"].items():
        for name, body in instances.items():
            yield kind, name, body


def _locked(stack: dict[str, Any]) -> set[str]:
    """Returns the addresses that have a lock."""
    locks = stack["resource"].get("azurerm_management_lock", {}).values()
    assert {lock["lock_level"] for lock in locks} <= {"CanNotDelete"}
    return {lock["scope"].removeprefix("${").removesuffix(".id}") for lock in locks}


def _is_locked(stack: dict[str, Any], kind: str, name: str) -> bool:
    """Returns True if the resource, or a resource that contains it, has a lock."""
    if f"{kind}.{name}" in _locked(stack):
        return True
    if not is_nested(kind):
        return False
    body = json.dumps(stack["resource"][kind][name])
    around = re.findall(r"\$\{(azurerm_\w+)\.([\w-]+)\.", body)
    return any(holds_data(parent) and _is_locked(stack, parent, own) for parent, own in around)


def _check_kept(stacks: Stacks) -> set[str]:
    """Asserts that every resource with data is protected, and returns their types."""
    found = set()
    for role, stack in stacks.items():
        for kind, name, body in _resources(stack):
            address = f"{role}: {kind}.{name}"
            if not holds_data(kind):
                assert HOLDS_NOTHING.fullmatch(kind), f"{address}: does it hold data?"
                continue
            found.add(kind)
            assert body.get("lifecycle", {}).get("prevent_destroy") is True, address
            assert _is_locked(stack, kind, name), f"{address} has no lock"
    return found


def _check_open(stacks: Stacks) -> None:
    text = json.dumps(stacks)
    assert "prevent_destroy" not in text
    assert "azurerm_management_lock" not in text


def _protected(file: Path) -> str | Path:
    return file.read_text().replace("protect: false\n", "") if file in OPEN else file


@pytest.mark.parametrize("file", ENVIRONMENTS, ids=lambda file: file.stem)
def test_protection_covers_data_resources_of_every_environment(
    written: Written, file: Path
) -> None:
    assert "azurerm_storage_account" in _check_kept(written(_protected(file)))


def test_protection_covers_data_resources_of_every_service(written: Written) -> None:
    assert _check_kept(written(FILES["own"])) >= {
        "azurerm_managed_disk",
        "azurerm_storage_account",
        "azurerm_storage_container",
        "azurerm_storage_share",
        "azurerm_managed_lustre_file_system",
        "azurerm_netapp_volume",
        "azurerm_recovery_services_vault",
        "azurerm_key_vault",
        "azurerm_container_registry",
    }


def test_protection_off_makes_no_lock(written: Written) -> None:
    assert len(OPEN) > 5
    for file in OPEN:
        _check_open(written(file))
    own = FILES["own"].read_text().replace("protect: true\n", "protect: false\n")
    pods = FILES["pods"].read_text() + "protect: false\n"
    for text in (own, pods):
        _check_open(written(text))


def test_protection_covers_the_state(written: Written, everything: str) -> None:
    assert _check_kept(written(everything, state=True)) == {
        "azurerm_storage_account",
        "azurerm_storage_container",
    }
    _check_open(written(everything + "protect: false\n", state=True))


def _below(stack: dict[str, Any], name: str) -> set[str]:
    """Returns the addresses of roles on resources with that lock, or inside them."""
    lock = stack["resource"]["azurerm_management_lock"][name]
    alone = {**stack, "resource": {**stack["resource"], "azurerm_management_lock": {name: lock}}}
    return {
        f"azurerm_role_assignment.{role}"
        for role, body in stack["resource"].get("azurerm_role_assignment", {}).items()
        if (on := _reference(body["scope"])) and _is_locked(alone, *on)
    }


def _reference(text: str) -> tuple[str, str] | None:
    found = re.match(r"\$\{(azurerm_\w+)\.([\w-]+)\.", text)
    return (found[1], found[2]) if found else None


def test_protection_locks_depend_on_roles_below_them(written: Written, everything: str) -> None:
    """Terraform destroys dependent resources first, and Azure removes no role below a lock."""
    seen = set()
    for stack in written(everything).values():
        for name, lock in stack["resource"].get("azurerm_management_lock", {}).items():
            below = _below(stack, name)
            assert below <= set(lock.get("depends_on", [])), name
            seen |= below
    assert "azurerm_role_assignment.nodes-outputs" in seen
    assert "azurerm_role_assignment.storage-key-vault" in seen


@pytest.mark.parametrize("file", ENVIRONMENTS, ids=lambda file: file.stem)
def test_protection_locks_have_no_roles_of_other_stacks_below_them(
    written: Written, file: Path
) -> None:
    """Otherwise the clusters could not be destroyed separately."""
    stacks = written(_protected(file))
    outputs = {
        name: output["value"]
        for stack in stacks.values()
        for name, output in stack.get("output", {}).items()
    }
    for stack in stacks.values():
        for role, body in stack["resource"].get("azurerm_role_assignment", {}).items():
            read = re.search(r"outputs\.(cross-stack-output-[\w-]+)\}", body["scope"])
            on = _reference(outputs[read[1]]) if read else None
            assert not on or not _is_locked(stacks["data"], *on), role


class TestTeardown:
    """The steps of docs/teardown.md."""

    def test_protection_switched_off_changes_nothing_else(
        self, written: Written, everything: str
    ) -> None:
        kept, given_up = written(everything), written(everything + "protect: false\n")
        _check_open(given_up)
        for role, stack in kept.items():
            stack["resource"].pop("azurerm_management_lock", None)
            for _, _, body in _resources(stack):
                lifecycle = body.get("lifecycle", {})
                lifecycle.pop("prevent_destroy", None)
                if not lifecycle:
                    body.pop("lifecycle", None)
            assert stack["resource"] == given_up[role]["resource"], role

    def test_teardown_order_removes_stacks_before_those_they_read(
        self, written: Written, everything: str
    ) -> None:
        order = list(reversed(ROLES))
        for role, stack in written(everything).items():
            for other in stack.get("data", {}).get("terraform_remote_state", {}):
                assert order.index(role) < order.index(other.rpartition("-")[2])

    def test_teardown_compute_stack_holds_no_data(self, written: Written, everything: str) -> None:
        for stacks in (written(everything), *(written(file) for file in ENVIRONMENTS)):
            held = [kind for kind in stacks["compute"]["resource"] if holds_data(kind)]
            assert held == []
