"""Pictures of stacks that are written out here: what refers to what, and how text is escaped."""

from __future__ import annotations

import re
from typing import Any

import pytest

from fairway_core.diagram import Arrow, Kind, Node, Picture, draw, graphviz, markdown, mermaid

NETWORK = {
    "resource": {
        "azurerm_virtual_network": {"vnet": {"name": "lab-vnet", "address_space": ["10.0.0.0/16"]}},
        "azurerm_subnet": {
            "compute": {
                "name": "lab-snet-compute",
                "address_prefixes": ["10.0.0.0/17"],
                "virtual_network_name": "${azurerm_virtual_network.vnet.name}",
            },
            "spare": {
                "name": "lab-snet-spare",
                "address_prefixes": ["10.0.128.0/17"],
                "virtual_network_name": "${azurerm_virtual_network.vnet.name}",
            },
        },
    },
    "output": {"subnet-id": {"value": "${azurerm_subnet.compute.id}"}},
}
READ = "data.terraform_remote_state.cross-stack-reference-input-lab-{}.outputs.{}"
COMPUTE = {
    "resource": {
        "azurerm_linux_virtual_machine_scale_set": {
            "pair": {
                "name": "lab-vmss-pair",
                "sku": "Standard_HB176rs_v4",
                "instances": 3,
                "network_interface": [
                    {
                        "ip_configuration": [
                            {"subnet_id": "${" + READ.format("network", "subnet-id") + "}"}
                        ]
                    }
                ],
            }
        }
    }
}


def _stacks(**more: Any) -> dict[str, Any]:
    return {"lab-network": NETWORK, "lab-compute": COMPUTE, **more}


def _titles(picture: Picture) -> set[str]:
    return {node.title for node in picture.all_nodes()}


def test_a_machine_stands_in_the_subnet_that_another_stack_publishes() -> None:
    (network,) = draw(_stacks(), "lab").groups
    (subnet,) = network.groups
    assert subnet.title == "lab-snet-compute"
    (node,) = subnet.nodes
    assert node.title == "lab-vmss-pair"
    assert node.kind is Kind.MACHINES
    assert node.lines == ("scale set", "3 × Standard_HB176rs_v4")


def test_an_empty_subnet_is_a_box() -> None:
    (network,) = draw(_stacks(), "lab").groups
    assert [(node.title, node.lines[0]) for node in network.nodes] == [
        ("lab-snet-spare", "empty subnet")
    ]


def test_the_order_of_stacks_and_resources_changes_nothing() -> None:
    def turned(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: turned(value[key]) for key in reversed(value)}
        return value

    texts = [mermaid(draw(stacks, "lab")) for stacks in (_stacks(), turned(_stacks()))]
    assert texts[0] == texts[1]


def test_a_stack_that_is_missing_leaves_its_machines_beside_the_networks() -> None:
    picture = draw({"lab-compute": COMPUTE}, "lab")
    assert not picture.groups
    assert _titles(picture) == {"lab-vmss-pair"}


def test_roles_on_parts_of_one_account_are_one_arrow() -> None:
    data = {
        "resource": {
            "azurerm_user_assigned_identity": {"nodes": {"name": "lab-id"}},
            "azurerm_storage_account": {
                "storage": {"name": '${substr(sha256(join("-", ["a", "b"])), 0, 8)}'}
            },
            "azurerm_storage_container": {
                name: {"name": name, "storage_account_id": "${azurerm_storage_account.storage.id}"}
                for name in ("code", "outputs")
            },
            "azurerm_role_assignment": {
                name: {
                    "principal_id": "${azurerm_user_assigned_identity.nodes.principal_id}",
                    "role_definition_name": "Reader",
                    "scope": f"${{azurerm_storage_container.{name}.id}}",
                }
                for name in ("code", "outputs")
            },
        }
    }
    picture = draw({"lab-data": data}, "lab")
    assert [arrow.label for arrow in picture.arrows] == ["Reader: code, outputs"]
    assert _titles(picture) == {"lab-id", "…"}


def test_a_role_on_a_subnet_is_a_line_of_its_identity_and_no_second_box() -> None:
    grant = {
        "principal_id": "${azurerm_user_assigned_identity.scheduler.principal_id}",
        "role_definition_id": "${azurerm_role_definition.scaler.role_definition_resource_id}",
    }
    hub = {
        "resource": {
            "azurerm_virtual_network": {"vnet": {"name": "hub-vnet"}},
            "azurerm_user_assigned_identity": {"scheduler": {"name": "hub-id"}},
            "azurerm_role_definition": {"scaler": {"name": "hub-${substr(1)}"}},
            "azurerm_role_assignment": {
                "one": grant | {"scope": "${azurerm_virtual_network.vnet.id}"},
                "two": grant | {"scope": "${azurerm_virtual_network.vnet.id}"},
            },
        }
    }
    picture = draw({"hub-network": hub}, "hub")
    (identity,) = picture.nodes
    assert identity.lines == ("identity", "scaler on hub-vnet")
    assert picture.arrows == []


@pytest.mark.parametrize(
    ("scope", "title"),
    [
        (
            "/subscriptions/${data.azurerm_client_config.current.subscription_id}",
            "the subscription",
        ),
        ("/subscriptions/1/resourceGroups/hub/providers/M.S/storageAccounts/old", "old"),
        ("${azurerm_resource_group.group.id}", "lab-rg"),
    ],
)
def test_a_role_of_somebody_else_on_something_else_has_two_boxes(scope: str, title: str) -> None:
    grant = {"principal_id": "1111-2222", "role_definition_name": "Reader", "scope": scope}
    resources = {
        "azurerm_resource_group": {"group": {"name": "lab-rg"}},
        "azurerm_role_assignment": {"one": grant, "two": grant},
    }
    picture = draw({"lab-data": {"resource": resources}}, "lab")
    assert _titles(picture) == {"1111-2222", title}
    (arrow,) = picture.arrows
    assert arrow.label == "Reader"
    assert {arrow.source, arrow.target} == {node.id for node in picture.all_nodes()}


def test_diagram_draws_mounted_hosts_as_file_servers_and_others_as_reached() -> None:
    def machine(name: str, *others: str) -> dict[str, Any]:
        addresses = "".join(f"${{azurerm_network_interface.{other}.address}}" for other in others)
        return {
            "name": f"lab-vm-{name}",
            "size": "Standard_D4s_v6",
            "network_interface_ids": [f"${{azurerm_network_interface.{name}.id}}"],
            "custom_data": addresses,
            "tags": {"fairway-role": roles[name], "fairway-name": name},
        }

    roles = {"data": "nfs-server", "scheduler": "slurm-scheduler", "nd": "slurm-partition"}
    resources = {
        "azurerm_network_interface": {
            name: {"name": f"lab-nic-{name}"} for name in ("data", "scheduler", "nd")
        },
        "azurerm_linux_virtual_machine": {
            "data": machine("data"),
            "scheduler": machine("scheduler", "data"),
            "nd": machine("nd", "data", "scheduler"),
        },
        "azurerm_managed_disk": {
            "state": {"name": "state", "disk_size_gb": 64, "storage_account_type": "Premium_LRS"}
        },
        "azurerm_virtual_machine_data_disk_attachment": {
            "state": {
                "managed_disk_id": "${azurerm_managed_disk.state.id}",
                "virtual_machine_id": "${azurerm_linux_virtual_machine.scheduler.id}",
            }
        },
    }
    record = {"name": "nd", "mounts": {"data": "/data"}, "spot": False, "nodes": {}}
    stack = {"resource": resources, "output": {"targets": {"value": [record]}}}
    picture = draw({"lab-compute": stack}, "lab")
    nodes = {node.id: node for node in picture.all_nodes()}
    kinds = {node.title: node.kind for node in nodes.values()}
    assert kinds == {
        "lab-vm-data": Kind.FILES,
        "lab-vm-nd": Kind.MACHINES,
        "lab-vm-scheduler": Kind.MACHINES,
    }
    assert {(nodes[a.source].title, a.label, nodes[a.target].title) for a in picture.arrows} == {
        ("lab-vm-nd", "mounts /data", "lab-vm-data"),
        ("lab-vm-nd", "reaches", "lab-vm-scheduler"),
        ("lab-vm-scheduler", "mounts", "lab-vm-data"),
    }


def test_a_subnet_that_was_there_already_is_named_from_its_id() -> None:
    nic = {
        "name": "nic",
        "ip_configuration": [{"subnet_id": "/subscriptions/1/x/virtualNetworks/hub/subnets/pe"}],
    }
    machine = {
        "name": "lab-vm-box",
        "size": "Standard_D4s_v6",
        "network_interface_ids": ["${azurerm_network_interface.nic.id}"],
    }
    resources = {
        "azurerm_network_interface": {"nic": nic},
        "azurerm_linux_virtual_machine": {"box": machine},
    }
    picture = draw({"lab-compute": {"resource": resources}}, "lab")
    (network,) = picture.groups
    assert network.title == "hub"
    assert [subnet.title for subnet in network.groups] == ["pe"]
    assert [node.title for node in network.groups[0].nodes] == ["lab-vm-box"]


HOSTILE = 'a"]; <img src=x onerror=alert(1)> `b` #quot; & \\ \n end %% | --> c'


def test_no_text_gets_out_of_its_quotes() -> None:
    picture = Picture(HOSTILE)
    picture.nodes = [Node("one", Kind.FILES, HOSTILE, (HOSTILE,)), Node("two", Kind.FILES, "b")]
    picture.arrows = [Arrow("one", "two", HOSTILE)]
    for line in mermaid(picture).splitlines():
        for quoted in re.findall(r'"(.*)"', line):
            if "init" not in line:
                assert not set(
                    quoted.replace("<br/>", "").replace("<b>", "").replace("</b>", "")
                ) & {'"', "<", "`", "\\"}
    assert len(mermaid(picture).splitlines()) == len(mermaid(_tame(picture)).splitlines())
    heading = markdown(picture).splitlines()[0]
    assert "\\<img" in heading
    text = graphviz(picture)
    assert "<img" not in text
    assert "&lt;img" in text


def _tame(picture: Picture) -> Picture:
    tame = Picture("a")
    tame.nodes = [
        Node(node.id, node.kind, "a", ("b",) if node.lines else ()) for node in picture.nodes
    ]
    tame.arrows = [Arrow(arrow.source, arrow.target, "a") for arrow in picture.arrows]
    return tame


def test_every_arrow_leads_from_box_to_box() -> None:
    picture = draw(_stacks(), "lab")
    ids = [node.id for node in picture.all_nodes()]
    assert len(ids) == len(set(ids))
    assert all({arrow.source, arrow.target} <= set(ids) for arrow in picture.arrows)
