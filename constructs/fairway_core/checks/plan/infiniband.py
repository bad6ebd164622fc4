"""A rule on what a plan would change: nodes that no longer reach each other over InfiniBand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fairway_core.catalog.sizes import known_size
from fairway_core.checks.check import Fault, Subject, check
from fairway_core.checks.plan.resource_changes import POOL, SCALE_SETS, changed
from fairway_core.findings import Severity

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from fairway_core.checks.resource_change import ResourceChange


@check("lost-infiniband", Severity.WARNING, Subject.PLAN, at=changed(*SCALE_SETS, POOL))
def lost_infiniband(change: ResourceChange) -> Iterator[Fault]:
    """A change after which nodes would no longer reach each other over InfiniBand.

    Wrong:
        resource_changes:
          - address: azurerm_linux_virtual_machine_scale_set.nd
            type: azurerm_linux_virtual_machine_scale_set
            change:
              actions: [update]
              before: {sku: Standard_ND96isr_H100_v5, single_placement_group: true}
              after: {sku: Standard_ND96isr_H100_v5, single_placement_group: false}

    Right:
        resource_changes:
          - address: azurerm_linux_virtual_machine_scale_set.nd
            type: azurerm_linux_virtual_machine_scale_set
            change:
              actions: [update]
              before: {sku: Standard_ND96isr_H100_v5, instances: 2}
              after: {sku: Standard_ND96isr_H100_v5, instances: 4}
    """
    before, after = change.before, change.after
    if not after or not _has_infiniband(before):
        return
    reasons = [*_broken(after, before)]
    if not _has_infiniband(after):
        size = known_size(_size(after))
        reasons.append(f"{size.name} has none" if size else "its new size is not known to have it")
    if reasons:
        yield Fault(
            f"`{change.address}` would lose InfiniBand: {'; '.join(reasons)}",
            "keep it as it was if jobs take several nodes",
        )


def _has_infiniband(attributes: Mapping[str, Any]) -> bool:
    size = known_size(_size(attributes))
    return size is not None and size.rdma


def _size(attributes: Mapping[str, Any]) -> str:
    return str(attributes.get("sku") or attributes.get("sku_name") or attributes.get("vm_size"))


def _broken(after: Mapping[str, Any], before: Mapping[str, Any]) -> Iterator[str]:
    """Why nodes of a size with InfiniBand would not reach each other, and did before."""
    if _turned(before, after, "single_placement_group", True, False):
        yield "it does not leave a placement group"
    if _turned(before, after, "inter_node_communication", "Enabled", "Disabled"):
        yield "nodes of the pool may no longer talk to each other"
    if _zones(after) > 1 >= _zones(before):
        yield "it does not reach another zone"
    if after.get("capacity_reservation_group_id") and not before.get(
        "capacity_reservation_group_id"
    ):
        yield "a capacity reservation takes the nodes out of their placement group"


def _zones(attributes: Mapping[str, Any]) -> int:
    zones = attributes.get("zones")
    return len(zones) if isinstance(zones, list) else 0


def _turned(
    before: Mapping[str, Any], after: Mapping[str, Any], key: str, old: object, new: object
) -> bool:
    return before.get(key) == old and after.get(key) == new
