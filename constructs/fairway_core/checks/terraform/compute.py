"""Rules on nodes: InfiniBand, multi-node jobs, and disks in the right zone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fairway_core.catalog import limit
from fairway_core.catalog.disks import disk_kinds
from fairway_core.catalog.limits import regions, regions_without_zones
from fairway_core.catalog.sizes import known_size
from fairway_core.checks.check import Subject, Violation, check
from fairway_core.checks.terraform.stack import referenced_address, resources_of_type
from fairway_core.findings import Severity
from fairway_core.json_values import number

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from fairway_core.checks.check import CheckContext
    from fairway_core.checks.terraform.stack import Resources

_SCALE_SET = "azurerm_linux_virtual_machine_scale_set"
_DISK = "azurerm_managed_disk"
_ATTACHMENT = "azurerm_virtual_machine_data_disk_attachment"


@check("broken-fabric", Severity.ERROR, Subject.TERRAFORM, select=resources_of_type(_SCALE_SET))
def broken_fabric(arguments: Mapping[str, Any]) -> Iterator[Violation]:
    """A scale set of a size with InfiniBand whose nodes could not reach each other over it.

    InfiniBand needs one placement group, in one zone or none, with all nodes kept.

    Wrong:
        azurerm_linux_virtual_machine_scale_set.pair:
          {sku: Standard_ND96isr_H100_v5, single_placement_group: false}

    Right:
        azurerm_linux_virtual_machine_scale_set.pair:
          {sku: Standard_ND96isr_H100_v5, single_placement_group: true,
           overprovision: false, platform_fault_domain_count: 1}
    """
    size, most = known_size(arguments.get("sku", "")), limit("placement_group_vms")
    if size is None or not size.rdma:
        return
    wanted = {
        "single_placement_group": (True, "InfiniBand does not leave a placement group"),
        "overprovision": (False, "Azure would start more nodes and delete some of them"),
        "platform_fault_domain_count": (1, "more fault domains spread the nodes"),
    }
    for argument, (value, why) in wanted.items():
        if arguments.get(argument) != value:
            yield Violation(why, f"{argument} = {str(value).lower()}", (argument,))
    if number(arguments.get("instances")) > most:
        yield Violation(
            f"a placement group holds {most} nodes", "make several scale sets", ("instances",)
        )
    if len(arguments.get("zones", ())) > 1:
        yield Violation("InfiniBand does not reach another zone", "name one zone", ("zones",))
    if arguments.get("capacity_reservation_group_id"):
        yield Violation(
            "a capacity reservation takes the nodes out of their placement group",
            "leave it out",
            ("capacity_reservation_group_id",),
        )


@check(
    "local-accounts",
    Severity.ERROR,
    Subject.TERRAFORM,
    select=resources_of_type("azurerm_kubernetes_cluster"),
)
def local_accounts(arguments: Mapping[str, Any]) -> Iterator[Violation]:
    """A Kubernetes cluster with local accounts: their certificates lie in Terraform's state.

    Anyone who can read the state can do anything in the cluster, and nothing shows who did it.

    Wrong:
        azurerm_kubernetes_cluster.kubernetes: {local_account_disabled: false}

    Right:
        azurerm_kubernetes_cluster.kubernetes: {local_account_disabled: true}
    """
    if arguments.get("local_account_disabled") is not True:
        yield Violation(
            "it would have local accounts, whose credentials are in Terraform's state",
            "local_account_disabled = true",
            ("local_account_disabled",),
        )


@check(
    "batch-mpi-pool",
    Severity.ERROR,
    Subject.TERRAFORM,
    select=resources_of_type("azurerm_batch_pool"),
)
def batch_mpi_pool(arguments: Mapping[str, Any]) -> Iterator[Violation]:
    """A Batch pool on which a multi-instance task would stay active for ever.

    Wrong:
        azurerm_batch_pool.nd: {inter_node_communication: Enabled, max_tasks_per_node: 4}

    Right:
        azurerm_batch_pool.nd: {inter_node_communication: Enabled, max_tasks_per_node: 1}
    """
    if arguments.get("inter_node_communication", "Enabled") != "Enabled":
        return  # each of its tasks takes one node
    if arguments.get("max_tasks_per_node", 1) != 1:
        yield Violation(
            "a multi-instance task needs one slot a node",
            "max_tasks_per_node = 1",
            ("max_tasks_per_node",),
        )
    scale = arguments.get("fixed_scale", {})
    scale = scale[0] if isinstance(scale, list) else scale
    dedicated = number(scale.get("target_dedicated_nodes"))
    spot = number(scale.get("target_low_priority_nodes"))
    if dedicated and spot:
        hint = "keep one of target_dedicated_nodes and target_low_priority_nodes"
        yield Violation("the nodes of a job must not be mixed", hint, ("fixed_scale",))
    most = limit("batch_pool_nodes_batch_service")
    if dedicated + spot > most:
        yield Violation(f"such a pool holds {most} nodes", "make several pools", ("fixed_scale",))


@check("disk-in-other-zone", Severity.ERROR, Subject.TERRAFORM)
def disk_in_other_zone(resources: Resources) -> Iterator[Violation]:
    """A disk that its VM cannot reach, because the two are in different zones.

    Wrong:
        azurerm_managed_disk.data: {zone: "1"}
        azurerm_linux_virtual_machine.data: {zone: "2"}
        azurerm_virtual_machine_data_disk_attachment.data:
          managed_disk_id: "${azurerm_managed_disk.data.id}"
          virtual_machine_id: "${azurerm_linux_virtual_machine.data.id}"

    Right:
        azurerm_managed_disk.data: {zone: "1"}
        azurerm_linux_virtual_machine.data: {zone: "1"}
        azurerm_virtual_machine_data_disk_attachment.data:
          managed_disk_id: "${azurerm_managed_disk.data.id}"
          virtual_machine_id: "${azurerm_linux_virtual_machine.data.id}"
    """
    zones = {
        f"{type_}.{name}": arguments.get("zone")
        for type_ in (_DISK, "azurerm_linux_virtual_machine")
        for name, arguments in resources.get(type_, {}).items()
    }
    for name, link in resources.get(_ATTACHMENT, {}).items():
        ends = [
            referenced_address(link.get(key)) for key in ("managed_disk_id", "virtual_machine_id")
        ]
        # Resources of other stacks are unknown here.
        known = [zones[end] or "none" for end in ends if end in zones]
        if len(set(known)) > 1:
            message = f"the disk is in zone {known[0]}, and its VM in {known[1]}"
            yield Violation(message, "put both in one zone", (_ATTACHMENT, name))


@check("zoneless-disk", Severity.ERROR, Subject.TERRAFORM)
def zoneless_disk(resources: Resources, context: CheckContext) -> Iterator[Violation]:
    """A Premium SSD v2 or Ultra disk outside of a zone, in a region that may have zones.

    In a region with zones Azure makes such disks in a zone only. An environment file that says
    `zone: none` gets the warning `disks-need-a-zone` in its place.

    Wrong:
        azurerm_managed_disk.data: {location: westeurope, storage_account_type: PremiumV2_LRS}

    Right:
        azurerm_managed_disk.data:
          {location: westeurope, storage_account_type: PremiumV2_LRS, zone: "2"}
    """
    zonal = {kind.sku for kind in disk_kinds().values() if kind.zonal}
    zoned = regions() - regions_without_zones()
    for name, disk in resources.get(_DISK, {}).items():
        sku, region = disk.get("storage_account_type"), disk.get("location")
        if not (context.zoneless or disk.get("zone")) and sku in zonal and region in zoned:
            yield Violation(
                f"Azure makes {sku} disks of {region} only in a zone",
                "name the `zone` of the stack, or take disks of kind `premium`; where the region "
                'has none: ignore_checks=["zoneless-disk"]',
                (_DISK, name),
            )
