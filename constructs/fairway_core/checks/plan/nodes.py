"""Rules on what a plan would do to the nodes of clusters."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

from fairway_core.catalog.dangers import made_with, server_of
from fairway_core.checks.blocks import first
from fairway_core.checks.check import Fault, Subject, check
from fairway_core.checks.plan.resource_changes import (
    NODE_POOL,
    POOL,
    SCALE_SETS,
    changed,
    deleted,
    stopped_for,
)
from fairway_core.findings import Severity
from fairway_core.naming import NAME_TAG, ROLE_TAG
from fairway_core.review.attributes import as_read

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from fairway_core.checks.check import Occurrence
    from fairway_core.checks.subjects import PlanSubject

_MACHINES = ("azurerm_linux_virtual_machine", "azurerm_windows_virtual_machine")
_ACCOUNT = "azurerm_batch_account"
_SAVE = "apply it when nothing runs on them, and save what is on their own disks first"


def _updated_sets(subject: PlanSubject) -> Iterator[Occurrence]:
    for path, arguments in changed(*SCALE_SETS, POOL)(subject):
        if arguments["actions"] == ["update"]:
            yield path, {key: arguments[key] for key in ("address", "type", "before", "after")}


@check("mixed-nodes", Severity.WARNING, Subject.PLAN, at=_updated_sets)
def mixed_nodes(
    address: str,
    type: str,  # noqa: A002
    before: Mapping[str, Any],
    after: Mapping[str, Any],
) -> Iterator[Fault]:
    """A change to what new nodes are made with: running nodes stay as they were until reimaged.

    With another upgrade mode than Manual, Azure reimages them itself.

    Wrong:
        resource_changes:
          - address: azurerm_linux_virtual_machine_scale_set.nd
            type: azurerm_linux_virtual_machine_scale_set
            change:
              actions: [update]
              before: {instances: 2, source_image_reference: [{version: "1"}]}
              after: {instances: 2, source_image_reference: [{version: "2"}]}

    Right:
        resource_changes:
          - address: azurerm_linux_virtual_machine_scale_set.nd
            type: azurerm_linux_virtual_machine_scale_set
            change: {actions: [update], before: {instances: 2}, after: {instances: 4}}
    """
    changed = [key for key in made_with(type) if _differ(before.get(key), after.get(key))]
    count, later = _nodes(type, before), _nodes(type, after)
    if isinstance(count, int) and isinstance(later, int):
        count = min(count, later)  # those that go are not among them
    if not changed or count == 0:
        return
    what = ", ".join(changed)
    nodes = _counted(count)
    if type != POOL and str(before.get("upgrade_mode") or "Manual") != "Manual":
        message = f"Azure would reimage {nodes} of `{address}`, as {what} changes"
        yield Fault(f"{message}: what runs on them ends", "apply it when nothing runs on them")
        return
    if changed == ["extension"]:
        until, hint = "brought up to date", _how_to_update(before)
    else:
        until, hint = "reimaged", _how_to_reimage(type, before)
    yield Fault(
        f"{nodes} of `{address}` would keep the old {what} until each is {until}: old and "
        "new nodes would be mixed",
        hint,
    )


def _how_to_reimage(type: str, scale_set: Mapping[str, Any]) -> str:  # noqa: A002
    tags = scale_set.get("metadata" if type == POOL else "tags") or {}
    name = shlex.quote(str(tags.get(NAME_TAG) or "TARGET"))
    if type == POOL:
        return f"for each node as it becomes idle: fairway nodes reimage {name} NODE"
    if tags.get(ROLE_TAG) == "slurm-partition":
        return (
            "on the scheduler, for each node as it becomes idle: "
            f"sudo scontrol update nodename={name}-N state=power_down_asap"
        )
    which = _all_of(scale_set)
    return f"when nothing runs on them: az vmss update-instances {which} && az vmss reimage {which}"


def _how_to_update(scale_set: Mapping[str, Any]) -> str:
    """Source: Azure documentation, Virtual Machine Scale Sets, "Upgrade policy modes" (Manual): an
    instance that is brought up to the model gets its extensions, and its disk stays."""
    which = _all_of(scale_set)
    return f"what runs continues, unless more has changed since: az vmss update-instances {which}"


def _all_of(scale_set: Mapping[str, Any]) -> str:
    group, name = (
        shlex.quote(str(scale_set.get(key) or key.upper()))
        for key in ("resource_group_name", "name")
    )
    return f"--resource-group {group} --name {name} --instance-ids '*'"


def _changed_nodes(subject: PlanSubject) -> Iterator[Occurrence]:
    everything = (*subject.changes, *subject.others)
    accounts = {each.get("name") for each in deleted(everything, _ACCOUNT)}
    for path, arguments in changed(*SCALE_SETS, POOL, NODE_POOL, *_MACHINES)(subject):
        account = arguments["before"].get("account_name")
        yield path, {**arguments, "account_stays": account not in accounts}


@check("lost-nodes", Severity.WARNING, Subject.PLAN, at=_changed_nodes)
def lost_nodes(
    address: str,
    type: str,  # noqa: A002
    actions: Sequence[str],
    before: Mapping[str, Any],
    after: Mapping[str, Any],
    reason: str = "",
    account_stays: bool = True,
) -> Iterator[Fault]:
    """A change that destroys or restarts nodes: what runs on them ends.

    What is on the disks of nodes that are destroyed goes with them.

    Wrong:
        resource_changes:
          - address: azurerm_linux_virtual_machine_scale_set.nd
            type: azurerm_linux_virtual_machine_scale_set
            change:
              actions: [delete, create]
              before: {instances: 2, priority: Regular}
              after: {instances: 2, priority: Spot}
              replace_paths: [[priority]]

    Right:
        resource_changes:
          - address: azurerm_linux_virtual_machine_scale_set.nd
            type: azurerm_linux_virtual_machine_scale_set
            change: {actions: [update], before: {instances: 2}, after: {instances: 4}}
    """
    if server_of(before) is not None:
        return
    count = 1 if type in _MACHINES else _nodes(type, before)
    if actions == ["update"]:
        yield from _fewer_or_stopped(address, type, before, after)
    elif "delete" in actions and count != 0:
        what = "destroyed and recreated" if "create" in actions else "destroyed"
        if not reason and "create" not in actions:
            reason = f"nothing asks for {'it' if type in _MACHINES else 'them'} any more"
        subject = (
            f"`{address}`, a node," if type in _MACHINES else f"{_counted(count)} of `{address}`"
        )
        ends = "what runs there ends"
        if type == POOL and "create" not in actions and account_stays:
            ends += ", and its jobs stay in the account without nodes"
        why = f", as {reason}" if reason else ""
        yield Fault(f"{subject} would be {what}{why}: {ends}", _SAVE)


def _fewer_or_stopped(
    address: str,
    type: str,  # noqa: A002
    before: Mapping[str, Any],
    after: Mapping[str, Any],
) -> Iterator[Fault]:
    fewer = _fewer(type, before, after)
    if fewer:
        message = f"{_counted(fewer)} of `{address}` would be destroyed, as it shrinks"
        yield Fault(f"{message}: what runs on them ends", _SAVE)
    stopped = stopped_for(before, after) if type in _MACHINES else []
    if stopped:
        message = f"`{address}`, a node, would restart, as {', '.join(stopped)} changes"
        yield Fault(f"{message}: what runs there ends", "apply it when nothing runs on it")


def _nodes(type: str, attributes: Mapping[str, Any]) -> object:  # noqa: A002
    """How many there are; None where nobody knows, as with a formula."""
    if type == NODE_POOL:
        # With autoscaling that is how many there were when somebody looked: more may come.
        return None if attributes.get("auto_scaling_enabled") else attributes.get("node_count")
    if type != POOL:
        return attributes.get("instances")
    counts = _of_pool(attributes)
    return None if counts is None else sum(counts)


def _of_pool(pool: Mapping[str, Any]) -> tuple[int, int] | None:
    """The dedicated nodes of a pool and those at low priority."""
    scale = first(pool.get("fixed_scale"))
    if not scale:
        return None
    dedicated, low = (
        scale.get(key) for key in ("target_dedicated_nodes", "target_low_priority_nodes")
    )
    return (
        dedicated if isinstance(dedicated, int) else 0,
        low if isinstance(low, int) else 0,
    )


def _fewer(type: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> int:  # noqa: A002
    """By how many a cluster of a fixed number would shrink; a node does not change its kind."""
    if type == POOL:
        pairs = zip(_of_pool(before) or (), _of_pool(after) or (), strict=False)
        return sum(max(0, old - new) for old, new in pairs)
    old, new = (_nodes(type, side) for side in (before, after))
    return max(0, old - new) if isinstance(old, int) and isinstance(new, int) else 0


def _counted(count: object) -> str:
    if not isinstance(count, int):
        return "the nodes"
    return "the 1 node" if count == 1 else f"the {count} nodes"


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
    return (as_read(value) if isinstance(value, str) else value) or None
