"""The places at which rules on plans are asked: resources that change or go."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from fairway_core.checks.check import Place
    from fairway_core.checks.subjects import PlanSubject

SCALE_SETS = (
    "azurerm_linux_virtual_machine_scale_set",
    "azurerm_orchestrated_virtual_machine_scale_set",
    "azurerm_windows_virtual_machine_scale_set",
)
POOL = "azurerm_batch_pool"


def changed(*types: str) -> Callable[[PlanSubject], Iterator[Place]]:
    """The resources of these types that change or go."""

    def places(subject: PlanSubject) -> Iterator[Place]:
        for each in subject.changes:
            actions = each["change"]["actions"]
            if each["type"] in types and ("update" in actions or "delete" in actions):
                arguments = {
                    "address": each["address"],
                    "type": each["type"],
                    "actions": actions,
                    "before": each["change"].get("before") or {},
                    "after": each["change"].get("after") or {},
                    "because": because(each["change"]),
                }
                yield (each["address"],), arguments

    return places


def because(change: Mapping[str, Any]) -> list[str]:
    """The attributes that force a replacement, with dots."""
    return [".".join(str(step) for step in path) for path in change.get("replace_paths") or ()]
