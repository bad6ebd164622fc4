"""The box of each resource: its name, and a line or two on what it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fairway_core.diagram.picture import Kind, Node
from fairway_core.diagram.terraform import nested, text
from fairway_core.naming import NAME_TAG, ROLE_TAG

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fairway_core.diagram.terraform import Resource, Terraform

NODE_POOL = "kubernetes_cluster_node_pool"
"""The type of a pool of nodes of Kubernetes."""
MACHINES = (
    "batch_pool",
    NODE_POOL,
    "linux_virtual_machine",
    "linux_virtual_machine_scale_set",
)
"""The types of resources that are machines."""

# What is one box by itself, with its kind and what it is.
_PLAIN: Mapping[str, tuple[Kind, str]] = {
    "bastion_host": (Kind.NETWORK, "Bastion"),
    "batch_account": (Kind.SERVICE, "Batch account"),
    "container_registry": (Kind.SERVICE, "container registry"),
    "kubernetes_cluster": (Kind.SERVICE, "Kubernetes cluster"),
    "key_vault": (Kind.SERVICE, "key vault"),
    "log_analytics_workspace": (Kind.SERVICE, "Log Analytics workspace"),
    "recovery_services_vault": (Kind.SERVICE, "backup vault"),
    "user_assigned_identity": (Kind.IDENTITY, "identity"),
}


def boxes(terraform: Terraform) -> dict[Resource, Node]:
    """The box that stands for each resource; disks, shares and containers share one."""
    drawn: dict[Resource, Node] = {}
    for resource in terraform.of(*_PLAIN):
        kind, what = _PLAIN[resource.type]
        drawn[resource] = Node(resource.id, kind, resource.name, (what,))
    _add_machines(terraform, drawn)
    _add_storage(terraform, drawn)
    for volume in terraform.of("netapp_volume"):
        size = f"{volume.arguments['storage_quota_in_gb']:,} GiB"
        lines = ("NetApp Files volume", f"{size}, {volume.arguments['service_level']}")
        drawn[volume] = Node(volume.id, Kind.FILES, volume.name, lines)
    for system in terraform.of("managed_lustre_file_system"):
        size = f"{system.arguments['storage_capacity_in_tb']} TiB"
        lines = ("Managed Lustre", f"{size}, {system.arguments['sku_name']}")
        drawn[system] = Node(system.id, Kind.FILES, system.name, lines)
    for endpoint in terraform.of("private_endpoint"):
        parts = ", ".join(next(nested(endpoint.arguments, "subresource_names"), ()))
        drawn[endpoint] = Node(
            endpoint.id, Kind.NETWORK, endpoint.name, (f"private endpoint: {parts}",)
        )
    for gateway in terraform.of("nat_gateway"):
        drawn[gateway] = Node(
            gateway.id, Kind.NETWORK, gateway.name, ("NAT gateway", *_egress(terraform, gateway))
        )
    return drawn


_MACHINES = {
    "batch_pool": "Batch pool",
    NODE_POOL: "node pool",
    "linux_virtual_machine": "VM",
}


def _add_machines(terraform: Terraform, drawn: dict[Resource, Node]) -> None:
    targets = terraform.targets()
    for machine in terraform.of(*MACHINES):
        record = target_of(machine, targets)
        what = _MACHINES.get(machine.type, "scale set")
        size = text(machine.arguments.get("size") or machine.arguments.get("sku"))
        size = size or text(machine.arguments.get("vm_size"))
        lines = [f"{what}, {size}" if machine.type == "linux_virtual_machine" else what]
        if machine.type != "linux_virtual_machine":
            lines.append(f"{_count(machine, record)} × {size}")
        spot = record["spot"] if record else text(machine.arguments.get("priority")) == "Spot"
        if spot:
            lines.append("Spot")
        disks = _disks(terraform, machine)
        if disks:
            lines.append(_disk_line(disks))
        role = (machine.arguments.get("tags") or {}).get(ROLE_TAG)
        kind = Kind.FILES if role == "nfs-server" else Kind.MACHINES
        node = Node(machine.id, kind, machine.name, tuple(lines))
        drawn[machine] = node
        for part in (*disks, *terraform.argument(machine, "network_interface_ids")):
            drawn[part] = node


def target_of(
    machine: Resource, targets: Mapping[str, Mapping[str, Any]]
) -> Mapping[str, Any] | None:
    """The record of the cluster that the machines are, by their tags."""
    tags = machine.arguments.get("tags") or machine.arguments.get("metadata") or {}
    is_cluster = tags.get(ROLE_TAG) in ("cluster", "slurm-partition")
    return targets.get(tags.get(NAME_TAG, "")) if is_cluster else None


def _count(machine: Resource, record: Mapping[str, Any] | None) -> str:
    if record is None:
        return str(machine.arguments.get("instances", "some"))
    least, most = record["nodes"]["min"], record["nodes"]["max"]
    return str(most) if least == most else f"{least} to {most}"


def _disks(terraform: Terraform, machine: Resource) -> list[Resource]:
    """The data disks that are attached to the machine."""
    return [
        disk
        for attachment in terraform.of("virtual_machine_data_disk_attachment")
        if machine in terraform.argument(attachment, "virtual_machine_id")
        for disk in terraform.argument(attachment, "managed_disk_id")
    ]


def _disk_line(disks: list[Resource]) -> str:
    """How many disks of which size and kind: all of a server's are alike."""
    first = disks[0].arguments
    size = f"{first['disk_size_gb']:,} GiB {first['storage_account_type']}"
    return f"{len(disks)} disks of {size}" if len(disks) > 1 else f"a disk of {size}"


def _add_storage(terraform: Terraform, drawn: dict[Resource, Node]) -> None:
    for account in terraform.of("storage_account"):
        parts = [
            part
            for part in terraform.of("storage_container", "storage_share")
            if account in terraform.argument(part, "storage_account_id")
        ]
        shares = [part for part in parts if part.type == "storage_share"]
        if shares:
            lines = (
                "Azure Files",
                *(f"{one.name}, {one.arguments['quota']:,} GiB" for one in shares),
            )
        else:
            lines = ("Blob storage", *(one.name for one in parts))
        kind = Kind.FILES if shares else Kind.SERVICE
        node = Node(account.id, kind, account.name, lines)
        drawn[account] = node
        for part in parts:
            drawn[part] = node


def _egress(terraform: Terraform, gateway: Resource) -> tuple[str, ...]:
    names = [
        subnet.address.name
        for association in terraform.of("subnet_nat_gateway_association")
        if gateway in terraform.argument(association, "nat_gateway_id")
        for subnet in terraform.argument(association, "subnet_id")
    ]
    return (f"to the internet for {', '.join(names)}",) if names else ()
