"""A change of a resource in a plan, as rules read it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fairway_core.json_values import at, first
from fairway_core.review.attributes import masked

if TYPE_CHECKING:
    from collections.abc import Mapping

# Terraform's own words for why a resource is replaced although no attribute forces it.
_REASONS = {
    "replace_by_request": "it was requested (-replace)",
    "replace_by_triggers": "something that it depends on changes (replace_triggered_by)",
    "replace_because_tainted": "it is tainted: it was not created properly",
}


@dataclass(frozen=True)
class ResourceChange:
    """One resource in a plan: the actions on it, and its attributes before and after, empty if it
    does not exist then.

    `unknown` names the attributes of which all or a part is known only after apply.
    """

    address: str
    type: str
    actions: list[str]
    before: Mapping[str, Any]
    after: Mapping[str, Any]
    unknown: Mapping[str, Any]
    raw: Mapping[str, Any]

    @classmethod
    def of(cls, resource: Mapping[str, Any]) -> ResourceChange:
        """One entry of `resource_changes`, as `terraform show -json` writes it."""
        change = resource["change"]
        return cls(
            resource["address"],
            resource["type"],
            change["actions"],
            change.get("before") or {},
            change.get("after") or {},
            first(change.get("after_unknown")),
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
        """The attribute on both sides; None where the new value is not known."""
        steps = path.split(".")
        if at(self.unknown, steps) is True:
            return None
        return at(self.before, steps), at(self.after, steps)

    @property
    def reason(self) -> str:
        """Why it is destroyed or recreated, as what follows on "as"."""
        if self.raw.get("deposed"):
            return "it was left over when another replaced it"
        paths = self.raw["change"].get("replace_paths") or ()
        if paths:
            forcing = ", ".join(".".join(str(step) for step in path) for path in paths)
            return f"{forcing} cannot be changed in place"
        asked = self.raw.get("action_reason")
        return _REASONS.get(asked, "") if isinstance(asked, str) else ""

    def shown(self, side: str) -> Mapping[str, Any]:
        """The attributes before or after the change, whose secrets no message may repeat."""
        change = self.raw["change"]
        found = masked(change.get(side), change.get(f"{side}_sensitive"))
        return found if isinstance(found, dict) else {}  # nothing, or all of it is a secret
