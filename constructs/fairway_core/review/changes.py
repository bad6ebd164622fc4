"""Changes of resources and outputs, with one action for each of Terraform's lists of actions."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from enum import StrEnum
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from fairway_core.checks.resource_change import allow_address
from fairway_core.findings import UserError
from fairway_core.review.attributes import (
    HIDDEN,
    UNKNOWN,
    AttributeChange,
    attribute_changes,
    masked,
)
from fairway_core.secret_values import is_secret_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from fairway_core.review.plan import Plan


class Action(StrEnum):
    """An action on a resource in a plan."""

    DESTROY = "destroy"
    REPLACE = "replace"
    CHANGE = "change"
    CREATE = "create"
    FORGET = "forget"
    MOVE = "move"
    IMPORT = "import"


_ACTIONS = {
    ("create",): Action.CREATE,
    ("update",): Action.CHANGE,
    ("delete", "create"): Action.REPLACE,
    ("create", "delete"): Action.REPLACE,
    ("create", "forget"): Action.REPLACE,
    ("delete",): Action.DESTROY,
    ("forget",): Action.FORGET,
}
_NOTHING = frozenset({("no-op",), ("read",)})

_SUBNET, _ASSOCIATION = "azurerm_subnet_", "_association"

# Attributes that distinguish a new resource from similar ones, in one line.
_FACTS = (
    "name",
    "sku",
    "size",
    "vm_size",
    "instances",
    "storage_account_type",
    "disk_size_gb",
    "quota",
    "storage_capacity_in_tb",
    "role_definition_name",
    "direction",
    "access",
    "source_address_prefix",
    "source_address_prefixes",
    "destination_port_range",
    "destination_port_ranges",
    "zone",
    "location",
)


@dataclass(frozen=True)
class Change:
    """A planned change of one resource, or a change made outside of Terraform, which is drift.

    `actions` are Terraform's own, in their order: a replacement may delete first, delete last, or
    leave the old resource in Azure ("forget"). `import_id` is the id of an imported resource.
    `because` names the attributes that force a replacement, `reason` is Terraform's code for it.
    `attributes` is empty for a created or destroyed resource; `created` has the attributes of a
    created one, without its secrets.
    """

    stack: str
    address: str
    type: str
    provider: str
    action: Action
    actions: tuple[str, ...] = ()
    because: tuple[str, ...] = ()
    reason: str = ""
    moved_from: str = ""
    import_id: str = ""
    deposed: str = ""
    attributes: tuple[AttributeChange, ...] = ()
    created: Any = None
    raw: Mapping[str, Any] | None = None

    @property
    def key(self) -> tuple[str, str, str]:
        """The identity of the resource: an address may also have deposed objects."""
        return self.stack, self.address, self.deposed

    @property
    def named(self) -> str:
        """The address by which `--allow` accepts its loss."""
        return allow_address(self.address, self.deposed)

    @property
    def forced(self) -> tuple[AttributeChange, ...]:
        """The attributes that force a replacement."""
        return tuple(each for each in self.attributes if each.forces)

    @property
    def facts(self) -> list[tuple[str, Any]]:
        """Names and values of attributes for a line on a new resource."""
        values = self.created if isinstance(self.created, dict) else {}
        nothing: tuple[Any, ...] = (None, "", [], UNKNOWN, HIDDEN)
        return [
            (name, values[name])
            for name in _FACTS
            # A blob's size is 0 unless it is a page blob.
            if values.get(name) not in nothing and (name, values[name]) != ("size", 0)
        ]


def changes_of(plan: Plan) -> Iterator[Change]:
    """Yields the planned changes in order, without resources that stay or are only read.

    Raises UserError for an unknown action, whose effect could not be described.
    """
    for resource in plan.changes:
        if resource.get("mode") == "data":
            continue
        actions = tuple(resource["change"]["actions"])
        action = _ACTIONS.get(actions)
        if actions in _NOTHING:  # its attributes stay
            if resource["change"].get("importing"):
                action = Action.IMPORT
            elif resource.get("previous_address"):
                action = Action.MOVE
            else:
                continue
        if action is None:
            raise UserError.of(
                "unknown-action",
                f"{plan.stack}: `{resource['address']}` has the actions {list(actions)}",
                "its Terraform is newer than Fairway supports: plan with an older one",
            )
        yield _change(plan.stack, resource, action)


def drift_of(plan: Plan) -> Iterator[Change]:
    """Yields resources that were visibly changed or deleted outside of Terraform.

    Terraform also lists values that it merely reads in another form than it wrote, and values that
    another resource of the same plan has set: these are left out.
    """
    set_elsewhere = frozenset(_associated(plan))
    for resource in plan.drift:
        action = _ACTIONS.get(tuple(resource["change"]["actions"]))
        if action is None:
            continue
        change = _change(plan.stack, resource, action, exact=False)
        if action is Action.CHANGE:
            name = _text((resource["change"].get("after") or {}).get("id"))
            kept = (
                each
                for each in change.attributes
                if (name, each.path, _text(each.new)) not in set_elsewhere
            )
            change = replace(change, attributes=tuple(kept))
        if change.attributes or action is not Action.CHANGE:
            yield change


def _associated(plan: Plan) -> Iterator[tuple[str, str, str]]:
    """Yields values that associations set in subnets: the subnet's id, attribute and value.

    The subnet was written before them, and Terraform reads these values only the next time.
    """
    for each in plan.changes:
        if not each["type"].startswith(_SUBNET) or not each["type"].endswith(_ASSOCIATION):
            continue
        values = each["change"].get("before") or {}
        for name, value in values.items():
            if name not in ("id", "subnet_id") and isinstance(value, str):
                yield str(values.get("subnet_id")), name, value


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _change(
    stack: str, resource: Mapping[str, Any], action: Action, *, exact: bool = True
) -> Change:
    """Parses a change; with `exact`, one without visible differences has all literal ones."""
    change = resource["change"]
    compared = action in (Action.CHANGE, Action.REPLACE, Action.IMPORT)
    attributes = attribute_changes(change) if compared else []
    if action is Action.CHANGE and exact and not attributes:
        attributes = attribute_changes(change, exact=True)
    created = None
    if action is Action.CREATE:
        masks = change.get("after_sensitive"), change.get("after_unknown")
        created = masked(change.get("after"), *masks)
    return Change(
        stack=stack,
        address=resource["address"],
        type=resource["type"],
        # Without its registry's host: `hashicorp/azurerm`.
        provider="/".join(str(resource.get("provider_name", "")).split("/")[-2:]),
        action=action,
        actions=tuple(change["actions"]),
        because=tuple(
            ".".join(str(step) for step in path) for path in change.get("replace_paths") or ()
        ),
        reason=str(resource.get("action_reason") or ""),
        moved_from=str(resource.get("previous_address") or ""),
        import_id=str((change.get("importing") or {}).get("id") or ""),
        deposed=str(resource.get("deposed") or ""),
        attributes=tuple(attributes),
        created=created,
        raw=change,
    )


@dataclass(frozen=True)
class OutputChange:
    """A change of one output: `old` and `new` are plain data, HIDDEN or UNKNOWN."""

    name: str
    action: Action
    old: Any
    new: Any


def output_changes(plan: Plan) -> Iterator[OutputChange]:
    """Yields the changed outputs, sorted by name."""
    for name, change in sorted(plan.output_changes.items()):
        action = _ACTIONS.get(tuple(change["actions"]))
        if action is not None:
            secret = is_secret_name(name)
            old = masked(change.get("before"), secret or change.get("before_sensitive"))
            sensitive = secret or change.get("after_sensitive")
            new = masked(change.get("after"), sensitive, change.get("after_unknown"))
            yield OutputChange(name, action, old, new)


# Markers as JSON objects, which no attribute's value can equal.
_MARKERS = {marker: {"": repr(marker)} for marker in (HIDDEN, UNKNOWN)}


def digest_of_stack(
    stack: str, state: str, changes: Iterable[Change], outputs: Iterable[OutputChange]
) -> str:
    """Returns the digest of one stack, `sha256:…`: plans with equal digests have equal effects.

    It covers, as JSON, whether the stack is planned, failed or waiting; each changed resource by
    address, with type, provider, actions, changed attributes with old and new values (all
    attributes of a new resource), those that force a replacement, previous address, and the id of
    an imported one; and each changed output. Secret values and values known only after apply are
    included as markers. Drift, findings, costs, allowed losses, the order of resources, the time,
    and versions are not covered.
    """
    facts = [
        [
            each.address,
            each.deposed,
            each.type,
            each.provider,
            str(each.action),
            each.actions,
            each.moved_from,
            each.import_id,
            sorted(each.because),
            [[attribute.path, attribute.old, attribute.new] for attribute in each.attributes],
            each.created,
        ]
        for each in changes
    ]
    content = {
        "stack": stack,
        "state": state,
        "changes": sorted(facts, key=itemgetter(0, 1)),
        "outputs": [[each.name, str(each.action), each.old, each.new] for each in outputs],
    }
    return _digest(content)


def digest_of(digests: Iterable[str]) -> str:
    """Returns the digest of several stacks, independent of their order."""
    return _digest(sorted(digests))


def _digest(content: Any) -> str:
    text = json.dumps(
        content,
        sort_keys=True,
        separators=(",", ":"),
        default=_MARKERS.__getitem__,
        check_circular=False,
    )
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"
