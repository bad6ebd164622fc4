"""Rules on what a plan would do to clusters' nodes, and to the InfiniBand fabric between them."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

from fairway_core.catalog.sizes import known_size
from fairway_core.catalog.terraform_types import reimage_attributes, server_of
from fairway_core.checks.check import Subject, Violation, check
from fairway_core.checks.resource_change import (
    NODE_POOL,
    POOL,
    SCALE_SETS,
    changed,
    deleted,
    stopped_for,
)
from fairway_core.findings import Severity, counted
from fairway_core.json_values import as_list, first_block, parse_embedded
from fairway_core.naming import NAME_TAG, ROLE_TAG

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from fairway_core.checks.check import Match
    from fairway_core.checks.resource_change import Changes, ResourceChange

_MACHINES = ("azurerm_linux_virtual_machine", "azurerm_windows_virtual_machine")
_ACCOUNT = "azurerm_batch_account"
_SAVE = "apply it when nothing runs on them, and save what is on their own disks first"
_BOOTS = "keep its `mounts:`, `idle:` and `monitoring:`, with which a single VM boots; or "


@check("mixed-nodes", Severity.WARNING, Subject.PLAN, select=changed(*SCALE_SETS, POOL))
def mixed_nodes(change: ResourceChange) -> Iterator[Violation]:
    """A change to what new nodes are made with: running nodes stay as they were until reimaged.

    With another upgrade mode than Manual, Azure reimages them itself.

    Wrong:
        azurerm_linux_virtual_machine_scale_set.nd:
          actions: [update]
          before: {instances: 2, source_image_reference: [{version: "1"}]}
          after: {instances: 2, source_image_reference: [{version: "2"}]}

    Right:
        azurerm_linux_virtual_machine_scale_set.nd:
          {actions: [update], before: {instances: 2}, after: {instances: 4}}
    """
    type_, before, after = change.type, change.before, change.after
    differ = [
        key
        for key in reimage_attributes(type_)
        if _without_nothing(before.get(key)) != _without_nothing(after.get(key))
    ]
    count, later = _nodes(type_, before), _nodes(type_, after)
    if isinstance(count, int) and isinstance(later, int):
        count = min(count, later)  # not counting nodes that are removed
    if not change.updates or not differ or count == 0:
        return
    what = ", ".join(differ)
    nodes = _counted(count, change)
    if type_ != POOL and str(before.get("upgrade_mode") or "Manual") != "Manual":
        message = f"Azure would reimage {nodes}, as {what} changes"
        yield Violation(f"{message}: what runs on them ends", "apply it when nothing runs on them")
        return
    if differ == ["extension"]:
        # Instances get their extensions, and keep their disks. Source: Azure documentation, Virtual
        # Machine Scale Sets, "Upgrade policy modes" (Manual).
        update = f"az vmss update-instances {_all_of(before)}"
        until, hint = (
            "brought up to date",
            f"what runs continues, unless more has changed since: {update}",
        )
    else:
        until, hint = "reimaged", _how_to_reimage(type_, before)
    yield Violation(
        f"{nodes} would keep the old {what} until each is {until}: old and "
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


def _all_of(scale_set: Mapping[str, Any]) -> str:
    group, name = (
        shlex.quote(str(scale_set.get(key) or key.upper()))
        for key in ("resource_group_name", "name")
    )
    return f"--resource-group {group} --name {name} --instance-ids '*'"


def _changed_nodes(changes: Changes, others: Changes) -> Iterator[Match]:
    accounts = {each.get("name") for each in deleted((*changes, *others), _ACCOUNT)}
    for path, found in changed(*SCALE_SETS, POOL, NODE_POOL, *_MACHINES)(changes):
        account = found["change"].before.get("account_name")
        yield path, {**found, "account_stays": account not in accounts}


@check("lost-nodes", Severity.WARNING, Subject.PLAN, select=_changed_nodes)
def lost_nodes(change: ResourceChange, *, account_stays: bool) -> Iterator[Violation]:
    """A change that destroys or restarts nodes: what runs on them ends.

    What is on the disks of nodes that are destroyed goes with them.

    Wrong:
        azurerm_linux_virtual_machine_scale_set.nd:
          {actions: [delete, create], before: {instances: 2}, replace_paths: [[priority]]}

    Right:
        azurerm_linux_virtual_machine_scale_set.nd:
          {actions: [update], before: {instances: 2}, after: {instances: 4}}
    """
    if server_of(change.before) is not None:
        return
    single, anew = change.type in _MACHINES, "create" in change.actions
    count = 1 if single else _nodes(change.type, change.before)
    if change.updates:
        yield from _fewer_or_stopped(change)
    elif change.goes and count != 0:
        why = change.because
        if not why and not anew:
            why = f", as nothing asks for {'it' if single else 'them'} any more"
        subject = f"`{change.address}`, a node," if single else _counted(count, change)
        ends = "what runs there ends"
        if change.type == POOL and not anew and account_stays:
            ends += ", and its jobs stay in the account without nodes"
        boots = single and ["custom_data"] in (change.raw["change"].get("replace_paths") or ())
        hint = f"{_BOOTS if boots else ''}{_SAVE}"
        yield Violation(f"{subject} would be {change.fate}{why}: {ends}", hint)


@check("lower-maximum", Severity.WARNING, Subject.PLAN)
def lower_maximum(outputs: Mapping[str, Mapping[str, Any]]) -> Iterator[Violation]:
    """A target that may have fewer nodes than before: a job that asks for more waits for ever.

    Where the number is fixed before and after, the nodes themselves go, and `lost-nodes` says that;
    nodes of Slurm are made by its scheduler.

    Wrong:
        output.targets:
          actions: [update]
          before: [{name: nd, engine: slurm, nodes: {min: 0, max: 8}}]
          after: [{name: nd, engine: slurm, nodes: {min: 0, max: 4}}]

    Right:
        output.targets:
          actions: [update]
          before: [{name: nd, engine: slurm, nodes: {min: 2, max: 8}}]
          after: [{name: nd, engine: slurm, nodes: {min: 0, max: 8}}]
    """
    change = outputs.get("targets", {})
    before, after = (_of_targets(change.get(side)) for side in ("before", "after"))
    for name, was in before.items():
        engine, least, most = was
        _, later, now = after.get(name, was)
        is_fixed = least == most and later == now
        if most > now and (engine == "slurm" or not is_fixed):
            ends = ""
            if engine == "slurm":
                to = f" to {name}-{most - 1}" if most - 1 > now else ""
                ends = f", and what runs on {name}-{now}{to} ends"
            yield Violation(
                f"`{name}` would have at most {counted(now, 'node')}, {most} before: a job that "
                f"asks for more waits for ever{ends}",
                "apply it when no job holds more, nor waits for it",
                ("targets", name),
            )


def _of_targets(output: object) -> dict[str, tuple[str, int, int]]:
    """Returns engine, minimum and maximum nodes of each complete target in a stack's output."""
    found = {}
    for target in output if isinstance(output, list) else ():
        match target:
            case {"batch": {"mpi": False}}:
                continue  # each job takes at most one node
            case {
                "name": str(name),
                "engine": str(engine),
                "nodes": {"min": int(a), "max": int(b)},
            }:
                found[name] = (engine, a, b)
    return found


def _fewer_or_stopped(change: ResourceChange) -> Iterator[Violation]:
    fewer = _fewer(change.type, change.before, change.after)
    if fewer:
        message = f"{_counted(fewer, change)} would be destroyed, as it shrinks"
        yield Violation(f"{message}: what runs on them ends", _SAVE)
    stopped = stopped_for(change.before, change.after) if change.type in _MACHINES else []
    if stopped:
        message = f"`{change.address}`, a node, would restart, as {', '.join(stopped)} changes"
        yield Violation(f"{message}: what runs there ends", "apply it when nothing runs on it")


def _nodes(type: str, attributes: Mapping[str, Any]) -> object:  # noqa: A002
    """Returns the number of a cluster's nodes, or None if it is unknown, as with a formula."""
    if type == NODE_POOL:
        # With autoscaling this is the number at the last refresh: there may be more.
        return None if attributes.get("auto_scaling_enabled") else attributes.get("node_count")
    if type != POOL:
        return attributes.get("instances")
    counts = _of_pool(attributes)
    return None if counts is None else sum(counts)


def _of_pool(pool: Mapping[str, Any]) -> tuple[int, int] | None:
    """Returns the numbers of dedicated and low-priority nodes of a pool, or None if it scales."""
    scale = first_block(pool.get("fixed_scale"))
    if not scale:
        return None
    dedicated, low = (
        scale.get(key) for key in ("target_dedicated_nodes", "target_low_priority_nodes")
    )
    return (dedicated if isinstance(dedicated, int) else 0, low if isinstance(low, int) else 0)


def _fewer(type: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> int:  # noqa: A002
    """Returns by how many nodes a fixed-size cluster would shrink; a node keeps its kind."""
    if type == POOL:
        pairs = zip(_of_pool(before) or (), _of_pool(after) or (), strict=False)
        return sum(max(0, old - new) for old, new in pairs)
    old, new = (_nodes(type, side) for side in (before, after))
    return max(0, old - new) if isinstance(old, int) and isinstance(new, int) else 0


def _counted(count: object, change: ResourceChange) -> str:
    nodes = counted(count, "node") if isinstance(count, int) else "nodes"
    return f"the {nodes} of `{change.address}`"


def _without_nothing(value: Any) -> Any:
    if isinstance(value, dict):
        kept = {key: _without_nothing(item) for key, item in value.items()}
        return {key: item for key, item in kept.items() if item} or None
    if isinstance(value, list):
        items: Collection[Any] = [_without_nothing(item) for item in value]
        return [item for item in items if item] or None
    return (parse_embedded(value) if isinstance(value, str) else value) or None


@check("lost-infiniband", Severity.WARNING, Subject.PLAN, select=changed(*SCALE_SETS, POOL))
def lost_infiniband(change: ResourceChange) -> Iterator[Violation]:
    """A change after which nodes would no longer reach each other over InfiniBand.

    Wrong:
        azurerm_linux_virtual_machine_scale_set.nd:
          actions: [update]
          before: {sku: Standard_ND96isr_H100_v5, single_placement_group: true}
          after: {sku: Standard_ND96isr_H100_v5, single_placement_group: false}

    Right:
        azurerm_linux_virtual_machine_scale_set.nd:
          {actions: [update], before: {instances: 2}, after: {instances: 4}}
    """
    before, after = change.before, change.after
    if not after or not _has_infiniband(before):
        return
    reasons = [*_broken(after, before)]
    if not _has_infiniband(after):
        size = known_size(_size(after))
        reasons.append(f"{size.name} has none" if size else "its new size is not known to have it")
    if reasons:
        yield Violation(
            f"`{change.address}` would lose InfiniBand: {'; '.join(reasons)}",
            "keep it as it was if jobs take several nodes",
        )


def _has_infiniband(attributes: Mapping[str, Any]) -> bool:
    size = known_size(_size(attributes))
    return size is not None and size.rdma


def _size(attributes: Mapping[str, Any]) -> str:
    return str(attributes.get("sku") or attributes.get("sku_name") or attributes.get("vm_size"))


def _broken(after: Mapping[str, Any], before: Mapping[str, Any]) -> Iterator[str]:
    """Yields reasons why nodes of a size with InfiniBand would no longer reach each other."""

    def turned(key: str) -> tuple[Any, Any]:
        return before.get(key), after.get(key)

    if turned("single_placement_group") == (True, False):
        yield "it does not leave a placement group"
    if turned("inter_node_communication") == ("Enabled", "Disabled"):
        yield "nodes of the pool may no longer talk to each other"
    was, zones = (len(as_list(each)) for each in turned("zones"))
    if zones > 1 >= was:
        yield "it does not reach another zone"
    reserved, reserves = turned("capacity_reservation_group_id")
    if reserves and not reserved:
        yield "a capacity reservation takes the nodes out of their placement group"
