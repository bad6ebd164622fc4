"""Changes of resources in a plan, for rules."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fairway_core.catalog.terraform_types import restarts
from fairway_core.json_values import first_block, value_at
from fairway_core.review.attributes import masked

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from fairway_core.checks.check import Match

    Changes = Collection["ResourceChange"]

# Terraform's reasons for replacing a resource although no attribute forces it.
_REASONS = {
    "replace_by_request": "it was requested (-replace)",
    "replace_by_triggers": "something that it depends on changes (replace_triggered_by)",
    "replace_because_tainted": "it is tainted: it was not created properly",
}


def allow_address(address: str, deposed: str) -> str:
    """Returns the address by which `--allow` accepts a loss: that of a deposed object has its key,
    as it is not lost with the current object of its resource.

    >>> allow_address("azurerm_managed_disk.data", "1a2b3c4d")
    'azurerm_managed_disk.data:deposed-1a2b3c4d'
    """
    return f"{address}:deposed-{deposed}" if deposed else address


@dataclass(frozen=True)
class ResourceChange:
    """One resource in a plan: the actions on it, and its attributes before and after, empty if it
    does not exist then; `unknown` marks those wholly or partly known only after apply."""

    address: str
    type: str
    actions: list[str]
    before: Mapping[str, Any]
    after: Mapping[str, Any]
    unknown: Mapping[str, Any]
    raw: Mapping[str, Any]

    @classmethod
    def of(cls, resource: Mapping[str, Any]) -> ResourceChange:
        """Parses an entry of `resource_changes` from `terraform show -json`."""
        change = resource["change"]
        return cls(
            allow_address(resource["address"], str(resource.get("deposed") or "")),
            resource["type"],
            change["actions"],
            change.get("before") or {},
            change.get("after") or {},
            first_block(change.get("after_unknown")),
            resource,
        )

    @property
    def acts(self) -> bool:
        """True unless the plan leaves the resource alone."""
        return "no-op" not in self.actions and "read" not in self.actions

    @property
    def goes(self) -> bool:
        """True if the resource is destroyed or replaced."""
        return "delete" in self.actions

    @property
    def updates(self) -> bool:
        """True if the resource is changed in place."""
        return self.actions == ["update"]

    def values(self, path: str) -> tuple[Any, Any] | None:
        """Returns the attribute before and after, or None if the new value is unknown."""
        steps = path.split(".")
        if value_at(self.unknown, steps) is True:
            return None
        return value_at(self.before, steps), value_at(self.after, steps)

    @property
    def reason(self) -> str:
        """The reason for destroying or recreating it, as a clause after "as"."""
        if self.raw.get("deposed"):
            return "it was left over when another replaced it"
        paths = self.raw["change"].get("replace_paths") or ()
        if paths:
            forcing = ", ".join(".".join(str(step) for step in path) for path in paths)
            return f"{forcing} cannot be changed in place"
        asked = self.raw.get("action_reason")
        if asked == "replace_by_triggers" and (names := self._changed()):
            return f"{', '.join(names)} {'changes' if len(names) == 1 else 'change'}"
        return _REASONS.get(asked, "") if isinstance(asked, str) else ""

    def _changed(self) -> list[str]:
        """Returns the attributes whose values are known to change."""
        before = self.before
        known = (name for name, value in self.after.items() if value is not None)
        return sorted(
            name for name in known if before.get(name, self.after[name]) != self.after[name]
        )

    @property
    def because(self) -> str:
        """The reason as the end of a clause, or "" if there is none."""
        return f", as {self.reason}" if self.reason else ""

    @property
    def fate(self) -> str:
        """The fate of a resource that is destroyed, as a phrase after "would be"."""
        return "destroyed and recreated" if "create" in self.actions else "destroyed"

    def shown(self, side: str) -> Mapping[str, Any]:
        """Returns the attributes before or after the change with secrets masked, for messages."""
        change = self.raw["change"]
        found = masked(change.get(side), change.get(f"{side}_sensitive"))
        return found if isinstance(found, dict) else {}  # missing, or secret as a whole


SCALE_SETS = (
    "azurerm_linux_virtual_machine_scale_set",
    "azurerm_orchestrated_virtual_machine_scale_set",
    "azurerm_windows_virtual_machine_scale_set",
)
POOL = "azurerm_batch_pool"
NODE_POOL = "azurerm_kubernetes_cluster_node_pool"
LOCK = "azurerm_management_lock"


def changed(*types: str) -> Callable[[Changes], Iterator[Match]]:
    """Returns a function that yields the changed resources of these types: `change`."""

    def matches(changes: Changes) -> Iterator[Match]:
        for each in changes:
            if each.type in types and each.acts:
                yield (each.address,), {"change": each}

    return matches


def deleted(changes: Iterable[ResourceChange], *types: str) -> Iterator[Mapping[str, Any]]:
    """Yields the former attributes of the deleted resources of these types, or of all."""
    for each in changes:
        if each.goes and (not types or each.type in types):
            yield each.before


def stopped_for(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """Returns the changed attributes that require a restart of the machine."""
    changed = []
    for path in restarts():
        old, new = (value_at(side, path.split(".")) for side in (before, after))
        if new is not None and (old or new) and old != new:
            changed.append(path)
    return changed


def deletions_below_locks(
    changes: Collection[ResourceChange],
) -> Iterator[tuple[ResourceChange, ResourceChange]]:
    """Yields each deletion below a lock that the plan keeps or creates, with that lock. A resource
    with its own lock is deleted together with it, and does not count. Source: Azure documentation,
    "Lock your Azure resources to protect your infrastructure"."""
    locks = [
        (f"{scope}/", f"{scope}|", each)  # the provider's ids of diagnostic settings contain a bar
        for each in changes
        if each.type == LOCK and (scope := lower_text(each.after, "scope"))
    ]
    for each in changes:
        if locks and each.goes and each.type != LOCK:
            id_ = lower_text(each.before, "id")
            yield from ((each, lock) for *below, lock in locks if id_.startswith(tuple(below)))


def minor_version(cluster: Mapping[str, Any]) -> int | None:
    """Returns 36 for Kubernetes "1.36" or "1.36.2", or None without a version."""
    for name in ("kubernetes_version", "orchestrator_version"):
        _, _, rest = str(cluster.get(name) or "").partition("1.")
        if (minor := rest.partition(".")[0]).isdecimal():
            return int(minor)
    return None


def lower_text(attributes: Mapping[str, Any], name: str) -> str:
    """Returns an attribute in lower case, as Azure ignores case in ids; "" if it is not text."""
    value = attributes.get(name)
    return value.lower() if isinstance(value, str) else ""


def locks_to_lift(changes: Iterable[Mapping[str, Any]], allow: Collection[str]) -> tuple[str, ...]:
    """Returns the addresses of locks that prevent the plan from being applied, if they do not exist
    yet or `allow` names them."""
    locks = {
        lock.address: lock for _, lock in deletions_below_locks([*map(ResourceChange.of, changes)])
    }
    return tuple(address for address, lock in locks.items() if address in allow or not lock.before)
