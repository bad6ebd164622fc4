"""The box of each resource: its name, and a line or two on what it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fairway_core.diagram.picture import Kind, Node
from fairway_core.diagram.terraform import text
from fairway_core.json_values import nested
from fairway_core.naming import NAME_TAG, ROLE_TAG

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fairway_core.diagram.terraform import Resource, Terraform

NODE_POOL = "kubernetes_cluster_node_pool"
"""The type of a pool of nodes of Kubernetes."""
MACHINES = {
    "batch_pool": "Batch pool",
    NODE_POOL: "node pool",
    "linux_virtual_machine": "VM",
    "linux_virtual_machine_scale_set": "scale set",
}
"""The types of resources that are machines, and what they are called."""
THERE_ALREADY = "there already"
"""The line of what the stacks name and do not make."""

# What is one box by itself: its kind, and lines with arguments of the resource.
_SERVICES = {
    "bastion_host": (Kind.NETWORK, "Bastion"),
    "batch_account": (Kind.SERVICE, "Batch account"),
    "container_registry": (Kind.SERVICE, "container registry"),
    "kubernetes_cluster": (Kind.SERVICE, "Kubernetes cluster"),
    "key_vault": (Kind.SERVICE, "key vault"),
    "log_analytics_workspace": (Kind.SERVICE, "Log Analytics workspace"),
    "recovery_services_vault": (Kind.SERVICE, "backup vault"),
    "user_assigned_identity": (Kind.IDENTITY, "identity"),
}
_FILES = {
    "netapp_volume": ("NetApp Files volume", "{storage_quota_in_gb:,} GiB, {service_level}"),
    "managed_lustre_file_system": ("Managed Lustre", "{storage_capacity_in_tb} TiB, {sku_name}"),
}


def boxes(terraform: Terraform) -> dict[Resource, Node]:
    """The box that stands for each resource; disks, shares and containers share one."""
    drawn: dict[Resource, Node] = {}

    def draw(resource: Resource, kind: Kind, *lines: str) -> Node:
        node = drawn[resource] = Node(resource.id, kind, resource.name, lines)
        return node

    for resource in terraform.of(*_SERVICES):
        draw(resource, *_SERVICES[resource.type])
    for machine in terraform.of(*MACHINES):
        disks = _disks(terraform, machine)
        role = (machine.arguments.get("tags") or {}).get(ROLE_TAG)
        kind = Kind.FILES if role == "nfs-server" else Kind.MACHINES
        node = draw(machine, kind, *_machine_lines(terraform, machine), *_disk_lines(disks))
        interfaces = terraform.argument(machine, "network_interface_ids")
        drawn |= dict.fromkeys([*disks, *interfaces], node)
    for account in terraform.of("storage_account"):
        kinds = ("storage_container", "storage_share")
        parts = list(terraform.referring(account, "storage_account_id", *kinds))
        shares = [part for part in parts if part.type == "storage_share"]
        if shares:
            sizes = [f"{share.name}, {share.arguments['quota']:,} GiB" for share in shares]
            node = draw(account, Kind.FILES, "Azure Files", *sizes)
        else:
            node = draw(account, Kind.SERVICE, "Blob storage", *(part.name for part in parts))
        drawn |= dict.fromkeys(parts, node)
    for type_, lines in _FILES.items():
        for resource in terraform.of(type_):
            draw(resource, Kind.FILES, *(line.format_map(resource.arguments) for line in lines))
    for endpoint in terraform.of("private_endpoint"):
        services = ", ".join(next(nested(endpoint.arguments, "subresource_names"), ()))
        draw(endpoint, Kind.NETWORK, f"private endpoint: {services}")
    for gateway in terraform.of("nat_gateway"):
        draw(gateway, Kind.NETWORK, "NAT gateway", *_egress(terraform, gateway))
    return drawn


def record_of(terraform: Terraform, machine: Resource) -> Mapping[str, Any] | None:
    """The record of the cluster that the machines are, by their tags."""
    tags = machine.arguments.get("tags") or machine.arguments.get("metadata") or {}
    is_cluster = tags.get(ROLE_TAG) in ("cluster", "slurm-partition")
    return terraform.targets.get(tags.get(NAME_TAG, "")) if is_cluster else None


def _machine_lines(terraform: Terraform, machine: Resource) -> list[str]:
    given, record = machine.arguments, record_of(terraform, machine)
    what, size = MACHINES[machine.type], text(given.get("size") or given.get("sku"))
    size = size or text(given.get("vm_size"))
    if machine.type == "linux_virtual_machine":
        lines = [f"{what}, {size}"]
    elif record is None:
        lines = [what, f"{given.get('instances', 'some')} × {size}"]
    else:
        least, most = record["nodes"]["min"], record["nodes"]["max"]
        lines = [what, f"{most if least == most else f'{least} to {most}'} × {size}"]
    spot = record["spot"] if record else given.get("priority") == "Spot"
    return [*lines, "Spot"] if spot else lines


def _disks(terraform: Terraform, machine: Resource) -> list[Resource]:
    """The data disks that are attached to the machine."""
    attached = "virtual_machine_data_disk_attachment"
    return [
        disk
        for attachment in terraform.referring(machine, "virtual_machine_id", attached)
        for disk in terraform.argument(attachment, "managed_disk_id")
    ]


def _disk_lines(disks: list[Resource]) -> list[str]:
    """How many disks of which size and kind: all of a server's are alike."""
    if not disks:
        return []
    first = disks[0].arguments
    size = f"{first['disk_size_gb']:,} GiB {first['storage_account_type']}"
    return [f"{len(disks)} disks of {size}" if len(disks) > 1 else f"a disk of {size}"]


def _egress(terraform: Terraform, gateway: Resource) -> list[str]:
    associations = "subnet_nat_gateway_association"
    names = [
        subnet.key
        for association in terraform.referring(gateway, "nat_gateway_id", associations)
        for subnet in terraform.argument(association, "subnet_id")
    ]
    return [f"to the internet for {', '.join(names)}"] if names else []
