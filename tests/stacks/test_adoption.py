"""`imports:` and `moved:`: what Terraform takes over, in the stack that has it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from fairway_core.findings import UserError
from fairway_stacks.app import stack_documents

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Written = Callable[[str], dict[str, Any]]

VNET = (
    "/subscriptions/11111111-2222-3333-4444-555555555555/resourceGroups/lab-rg-network/providers"
    "/Microsoft.Network/virtualNetworks/lab-vnet"
)


@pytest.fixture
def stacks(tmp_path: Path, everything: str) -> Written:
    """The stacks of an environment with more lines at its end."""

    def write(lines: str) -> dict[str, Any]:
        file = tmp_path / "lab.yaml"
        file.write_text(f"{everything}{lines}\n")
        return dict(stack_documents(file, warn=lambda _: None))

    return write


def test_each_block_is_in_the_stack_that_has_the_resource(stacks: Written) -> None:
    found = stacks(
        f"imports: {{azurerm_virtual_network.vnet: {VNET}}}\n"
        "moved: {azurerm_storage_account.old: azurerm_storage_account.storage}"
    )
    assert found["lab-network"]["import"] == [{"to": "azurerm_virtual_network.vnet", "id": VNET}]
    assert found["lab-data"]["moved"] == [
        {"from": "azurerm_storage_account.old", "to": "azurerm_storage_account.storage"}
    ]
    assert "import" not in found["lab-data"]
    assert "moved" not in found["lab-compute"]


@pytest.mark.parametrize(
    ("line", "message", "hint"),
    [
        (
            f"imports: {{azurerm_virtual_network.vnt: {VNET}}}",
            "`imports:` names azurerm_virtual_network.vnt, which no stack has",
            "did you mean `azurerm_virtual_network.vnet`?",
        ),
        (
            "moved: {azurerm_virtual_network.vnet: azurerm_virtual_network.other}",
            "`moved:` names azurerm_virtual_network.other",
            "",
        ),
        (
            f"imports: {{azurerm_resource_group.group: {VNET}}}",
            "several stacks have azurerm_resource_group.group",
            "write network/azurerm_resource_group.group or data/azurerm_resource_group.group",
        ),
        (
            "moved: {data/azurerm_virtual_network.old: azurerm_virtual_network.vnet}",
            "`moved:` leads from data/azurerm_virtual_network.old into the stack lab-network",
            "terraform state mv",
        ),
        ("imports: {azurerm_virtual_network.vnet: '${evil}'}", "not the id of a resource", ""),
        (f"imports: {{vnet: {VNET}}}", "`vnet` is not the address of a resource", ""),
    ],
)
def test_an_address_that_no_stack_has_is_refused(
    stacks: Written, line: str, message: str, hint: str
) -> None:
    with pytest.raises(UserError) as caught:
        stacks(line)
    finding = caught.value.findings[0]
    assert message in finding.message
    assert hint in finding.hint
