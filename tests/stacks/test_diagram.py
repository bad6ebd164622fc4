"""Pictures of environments name resources as the stacks do."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fairway_core.diagram import draw
from fairway_core.diagram.drawing import EXISTING
from fairway_core.environment import load_environment

ROOT = Path(__file__).parents[2]
FILES = [
    *(ROOT / f"tests/stacks/sections/{name}.yaml" for name in ("company", "own", "page", "pods")),
    ROOT / "stacks/environments/lustre-large.yaml",
]
# None of these is left out of a picture.
_DRAWN = {
    *("azurerm_subnet", "azurerm_nat_gateway", "azurerm_bastion_host"),
    *("azurerm_linux_virtual_machine", "azurerm_linux_virtual_machine_scale_set"),
    *("azurerm_batch_account", "azurerm_batch_pool", "azurerm_kubernetes_cluster"),
    *("azurerm_storage_account", "azurerm_key_vault", "azurerm_container_registry"),
    *("azurerm_managed_lustre_file_system", "azurerm_netapp_volume"),
    *("azurerm_log_analytics_workspace", "azurerm_recovery_services_vault"),
}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_each_box_is_called_as_its_resource(
    written: Callable[..., dict[str, dict[str, Any]]], file: Path
) -> None:
    stacks = list(written(file).values())
    named = [
        one for stack in stacks for each in stack["resource"].values() for one in each.values()
    ]
    names = {re.sub(r"\$\{[^}]*\}", "…", str(one.get("name"))) for one in named}
    picture = draw(load_environment(file), file.stem)
    made = [box for box in picture.all_nodes() if not any(EXISTING in x for x in box.lines)]
    people = {box.title for box in made if box.lines[0].startswith("user or group")}
    assert {box.title for box in made} - people <= names
    drawn = {
        each.title for network in picture.groups for each in (*network.groups, *picture.all_nodes())
    }
    for stack in stacks:
        for type_ in _DRAWN & stack["resource"].keys():
            for one in stack["resource"][type_].values():
                assert re.sub(r"\$\{[^}]*\}", "…", one["name"]) in drawn, type_
    for group in (each for network in picture.groups for each in (network, *network.groups)):
        assert group.title in names or EXISTING in group.lines[-1]
