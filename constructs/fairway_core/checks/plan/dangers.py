"""Rules on what a plan would change that loses no data, and that somebody should look at."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fairway_core.catalog.dangers import reimaged_by
from fairway_core.catalog.sizes import known_size
from fairway_core.checks.check import Fault, Subject, check
from fairway_core.findings import Severity

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    from fairway_core.checks.check import Place
    from fairway_core.checks.subjects import PlanSubject

_SCALE_SETS = (
    "azurerm_linux_virtual_machine_scale_set",
    "azurerm_orchestrated_virtual_machine_scale_set",
)
_POOL = "azurerm_batch_pool"


def _updates(*types: str) -> Callable[[PlanSubject], Iterator[Place]]:
    """The places of resources of these types that change and stay: `before` and `after`."""

    def places(subject: PlanSubject) -> Iterator[Place]:
        for change in subject.changes:
            if change["type"] in types and "no-op" not in change["change"]["actions"]:
                before, after = change["change"].get("before"), change["change"].get("after")
                if before and after:
                    arguments = {"address": change["address"], "before": before, "after": after}
                    yield (change["address"],), arguments

    return places


@check("reimaged-nodes", Severity.WARNING, Subject.PLAN, at=_updates(*_SCALE_SETS))
def reimaged_nodes(
    address: str, before: Mapping[str, Any], after: Mapping[str, Any]
) -> Iterator[Fault]:
    """A change of a scale set for which its nodes are made anew: what runs on them ends.

    Wrong:
        resource_changes:
          - address: azurerm_linux_virtual_machine_scale_set.nd
            type: azurerm_linux_virtual_machine_scale_set
            change:
              actions: [update]
              before: {source_image_reference: [{version: "1"}]}
              after: {source_image_reference: [{version: "2"}]}

    Right:
        resource_changes:
          - address: azurerm_linux_virtual_machine_scale_set.nd
            type: azurerm_linux_virtual_machine_scale_set
            change: {actions: [update], before: {instances: 2}, after: {instances: 4}}
    """
    changed = [key for key in reimaged_by() if _differ(before.get(key), after.get(key))]
    if changed:
        yield Fault(
            f"the nodes of `{address}` would be reimaged: {', '.join(changed)} changes",
            "apply it when nothing runs on them",
        )


@check("lost-infiniband", Severity.WARNING, Subject.PLAN, at=_updates(*_SCALE_SETS, _POOL))
def lost_infiniband(
    address: str, before: Mapping[str, Any], after: Mapping[str, Any]
) -> Iterator[Fault]:
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
    if not _has_infiniband(before):
        return
    reasons = [*_broken(after, before)]
    if not _has_infiniband(after):
        size = known_size(_size(after))
        reasons.append(f"{size.name} has none" if size else "its new size is not known to have it")
    if reasons:
        yield Fault(
            f"`{address}` would lose InfiniBand: {'; '.join(reasons)}",
            "keep it as it was where jobs take several nodes",
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


def _differ(old: Any, new: Any) -> bool:
    """Whether two values differ in more than in how they say nothing."""
    return bool(_without_nothing(old) != _without_nothing(new))


def _without_nothing(value: Any) -> Any:
    if isinstance(value, dict):
        kept = {key: _without_nothing(item) for key, item in value.items()}
        return {key: item for key, item in kept.items() if item} or None
    if isinstance(value, list):
        items: Collection[Any] = [_without_nothing(item) for item in value]
        return [item for item in items if item] or None
    return value or None
