"""Where rules on plans apply: resources that change or go."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fairway_core.catalog.dangers import restarts
from fairway_core.checks.blocks import at
from fairway_core.review.attributes import masked

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from fairway_core.checks.check import Occurrence
    from fairway_core.checks.subjects import PlanSubject

SCALE_SETS = (
    "azurerm_linux_virtual_machine_scale_set",
    "azurerm_orchestrated_virtual_machine_scale_set",
    "azurerm_windows_virtual_machine_scale_set",
)
POOL = "azurerm_batch_pool"
NODE_POOL = "azurerm_kubernetes_cluster_node_pool"
LOCK = "azurerm_management_lock"


def changed(*types: str) -> Callable[[PlanSubject], Iterator[Occurrence]]:
    """The resources of these types that change or go."""

    def occurrences(subject: PlanSubject) -> Iterator[Occurrence]:
        for each in subject.changes:
            actions = each["change"]["actions"]
            if each["type"] in types and ("update" in actions or "delete" in actions):
                arguments = {
                    "address": each["address"],
                    "type": each["type"],
                    "actions": actions,
                    "before": each["change"].get("before") or {},
                    "after": each["change"].get("after") or {},
                    "reason": reason(each),
                }
                yield (each["address"],), arguments

    return occurrences


def deleted(changes: Iterable[Mapping[str, Any]], *types: str) -> Iterator[Mapping[str, Any]]:
    """What goes, of these types or of all, as it was before."""
    for each in changes:
        if "delete" in each["change"]["actions"] and (not types or each["type"] in types):
            yield each["change"].get("before") or {}


def because(change: Mapping[str, Any]) -> list[str]:
    """The attributes that force a replacement, with dots."""
    return [".".join(str(step) for step in path) for path in change.get("replace_paths") or ()]


# Terraform's own words for why a resource is replaced although no attribute forces it.
_REASONS = {
    "replace_by_request": "it was requested (-replace)",
    "replace_by_triggers": "something that it depends on changes (replace_triggered_by)",
    "replace_because_tainted": "it is tainted: it was not created properly",
}


def reason(resource: Mapping[str, Any]) -> str:
    """Why it is destroyed or recreated, as what follows on "as"."""
    change = resource["change"]
    if resource.get("deposed"):
        return "it was left over when another replaced it"
    forcing = because(change)
    if forcing:
        return f"{', '.join(forcing)} cannot be changed in place"
    asked = resource.get("action_reason")
    return _REASONS.get(asked, "") if isinstance(asked, str) else ""


def stopped_for(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """The attributes for whose change a machine is stopped and started again."""
    changed = []
    for path in restarts():
        old, new = (at(side, path.split(".")) for side in (before, after))
        if new is not None and (old or new) and old != new:
            changed.append(path)
    return changed


def shown(change: Mapping[str, Any], side: str) -> Mapping[str, Any]:
    """The attributes before or after a change, whose secrets no message may repeat."""
    found = masked(change.get(side), change.get(f"{side}_sensitive"))
    return found if isinstance(found, dict) else {}  # nothing, or all of it is a secret


def held(
    changes: Collection[Mapping[str, Any]],
) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """Each deletion below a lock that the plan keeps or makes, with that lock.

    What has a lock of its own goes with it. Source: Azure documentation, "Lock your Azure
    resources to protect your infrastructure".
    """
    locks = [
        (f"{scope}/", f"{scope}|", each)  # the provider's ids of diagnostic settings have a bar
        for each in changes
        if each["type"] == LOCK and (scope := lower_text(each, "after", "scope"))
    ]
    for each in changes:
        if locks and "delete" in each["change"]["actions"] and each["type"] != LOCK:
            id_ = lower_text(each, "before", "id")
            yield from ((each, lock) for *below, lock in locks if id_.startswith(tuple(below)))


def lower_text(resource: Mapping[str, Any], side: str, name: str) -> str:
    """An attribute; Azure ignores case in ids."""
    value = (resource["change"].get(side) or {}).get(name)
    return value.lower() if isinstance(value, str) else ""


def locks_to_lift(
    changes: Collection[Mapping[str, Any]], allow: Collection[str]
) -> tuple[str, ...]:
    """The addresses of the locks without which the plan can be applied, of those that are not there
    yet or that may be taken away, as `allow` says."""
    locks = {lock["address"]: lock for _, lock in held(changes)}
    return tuple(
        address
        for address, lock in locks.items()
        if address in allow or not lock["change"].get("before")
    )
