"""Where rules on plans apply: resources that change or go."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fairway_core.catalog.dangers import restarts
from fairway_core.checks.resource_change import ResourceChange
from fairway_core.json_values import at

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from fairway_core.checks.check import Occurrence, PlanSubject

SCALE_SETS = (
    "azurerm_linux_virtual_machine_scale_set",
    "azurerm_orchestrated_virtual_machine_scale_set",
    "azurerm_windows_virtual_machine_scale_set",
)
POOL = "azurerm_batch_pool"
NODE_POOL = "azurerm_kubernetes_cluster_node_pool"
LOCK = "azurerm_management_lock"


def changed(*types: str) -> Callable[[PlanSubject], Iterator[Occurrence]]:
    """The resources of these types with which anything is done: `change`."""

    def occurrences(subject: PlanSubject) -> Iterator[Occurrence]:
        for each in subject.changes:
            if each.type in types and each.acts:
                yield (each.address,), {"change": each}

    return occurrences


def deleted(changes: Iterable[ResourceChange], *types: str) -> Iterator[Mapping[str, Any]]:
    """What goes, of these types or of all, as it was before."""
    for each in changes:
        if each.goes and (not types or each.type in types):
            yield each.before


def stopped_for(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """The attributes for whose change a machine is stopped and started again."""
    changed = []
    for path in restarts():
        old, new = (at(side, path.split(".")) for side in (before, after))
        if new is not None and (old or new) and old != new:
            changed.append(path)
    return changed


def held(changes: Collection[ResourceChange]) -> Iterator[tuple[ResourceChange, ResourceChange]]:
    """Each deletion below a lock that the plan keeps or makes, with that lock.

    What has a lock of its own goes with it. Source: Azure documentation, "Lock your Azure
    resources to protect your infrastructure".
    """
    locks = [
        (f"{scope}/", f"{scope}|", each)  # the provider's ids of diagnostic settings have a bar
        for each in changes
        if each.type == LOCK and (scope := lower_text(each.after, "scope"))
    ]
    for each in changes:
        if locks and each.goes and each.type != LOCK:
            id_ = lower_text(each.before, "id")
            yield from ((each, lock) for *below, lock in locks if id_.startswith(tuple(below)))


def lower_text(attributes: Mapping[str, Any], name: str) -> str:
    """An attribute; Azure ignores case in ids."""
    value = attributes.get(name)
    return value.lower() if isinstance(value, str) else ""


def locks_to_lift(changes: Iterable[Mapping[str, Any]], allow: Collection[str]) -> tuple[str, ...]:
    """The addresses of the locks without which the plan can be applied, of those that are not there
    yet or that may be taken away, as `allow` says."""
    locks = {lock.address: lock for _, lock in held([*map(ResourceChange.of, changes)])}
    return tuple(address for address, lock in locks.items() if address in allow or not lock.before)
