"""Rules on what a plan would take away, and on what Azure would refuse to do."""

from __future__ import annotations

import shlex
from ipaddress import ip_network
from typing import TYPE_CHECKING, Any

from fairway_core.catalog.disks import is_kind_of_its_own
from fairway_core.checks.blocks import first
from fairway_core.checks.check import Fault, Subject, check
from fairway_core.checks.expiry import LIFE_CYCLE
from fairway_core.checks.losses import Sides, by_change, by_deletion
from fairway_core.checks.plan.resource_changes import deleted
from fairway_core.checks.plan.resource_changes import reason as reason_of
from fairway_core.findings import Severity

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from fairway_core.checks.check import Occurrence
    from fairway_core.checks.subjects import PlanSubject

_CONTAINER = "azurerm_storage_container"
_DISK, _SUBNET = "azurerm_managed_disk", "azurerm_subnet"
_MACHINE = "azurerm_linux_virtual_machine"
_RESIZED = (_DISK, _MACHINE, _SUBNET)


def _changes(subject: PlanSubject) -> Iterator[Occurrence]:
    changes = [one for one in subject.changes if _does_something(one["change"]["actions"])]
    gone = frozenset(str(each.get("id")) for each in deleted(changes))
    created = frozenset(_created_containers(changes))
    for each in changes:
        change = each["change"]
        if change["actions"] == ["create"] and each["type"] != LIFE_CYCLE:
            continue  # what is new takes nothing away
        yield (
            (each["address"],),
            {
                "address": each["address"],
                "type": each["type"],
                "actions": change["actions"],
                "reason": reason_of(each),
                "before": change.get("before") or {},
                "after": change.get("after") or {},
                "unknown": _mapping(change.get("after_unknown")),
                "gone": gone,
                "created": created,
                "allow": subject.allow,
            },
        )


def _does_something(actions: Sequence[str]) -> bool:
    return "no-op" not in actions and "read" not in actions


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _created_containers(changes: Collection[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    for each in changes:
        if each["type"] == _CONTAINER and each["change"]["actions"] == ["create"]:
            after = each["change"].get("after") or {}
            yield str(after.get("storage_account_id")), str(after.get("name"))


@check("data-loss", Severity.ERROR, Subject.PLAN, at=_changes)
def data_loss(
    address: str,
    type: str,  # noqa: A002
    actions: Sequence[str],
    reason: str,
    before: Mapping[str, Any],
    after: Mapping[str, Any],
    unknown: Mapping[str, Any],
    gone: Collection[str],
    created: Collection[tuple[str, str]],
    allow: Collection[str],
) -> Iterator[Fault]:
    """A change that loses data now or later: a disk or a lock goes, or less is kept than before.

    To accept it, name the resource's address on the command line. Deleted or
    replaced: disks, accounts, containers, shares, volumes, databases, vaults, images, backups,
    logs, Batch accounts, locks, immutability policies, resource groups, and machines with a disk
    of their own. Changed: a life cycle that deletes sooner; versions, soft delete, snapshots,
    backups and logs that are kept for less time; a share, volume or pool that shrinks; a lock or
    an immutability policy that holds less; less replication.

    Wrong:
        resource_changes:
          - address: azurerm_managed_disk.data-disk-0
            type: azurerm_managed_disk
            change: {actions: [delete, create], replace_paths: [[zone]]}

    Right:
        resource_changes:
          - address: azurerm_managed_disk.data-disk-0
            type: azurerm_managed_disk
            change: {actions: [update]}
    """
    if address in allow:
        return
    sides = Sides(type, before, after, unknown)
    ways: list[str] = []
    if "delete" in actions:
        replaced = "create" in actions
        what = "replaced" if replaced else "deleted"
        why = f": {reason}" if reason else ""
        ends = by_deletion(sides, gone, replaced=replaced)
        ways = [f"would be {what}, {end}{why}" for end in ends]
    if not ways and "forget" not in actions and actions != ["delete"]:
        ways = list(by_change(sides, created))
    if ways:
        yield Fault(
            f"`{address}` {'; '.join(ways)}",
            "keep it as it is, or copy its data first; to accept the loss: pass "
            f"--allow {shlex.quote(address)}",
        )


def _sizes(subject: PlanSubject) -> Iterator[Occurrence]:
    for change in subject.changes:
        type_, actions = change["type"], change["change"]["actions"]
        goes = "delete" in actions
        if (type_ == _SUBNET and goes) or (type_ in _RESIZED and actions == ["update"]):
            before = change["change"].get("before") or {}
            yield (
                (change["address"],),
                {
                    "address": change["address"],
                    "type": type_,
                    "actions": actions,
                    "before": before,
                    "after": change["change"].get("after") or {},
                    "users": list(_users(subject, before, goes)) if type_ == _SUBNET else [],
                },
            )


def _users(subject: PlanSubject, subnet: Mapping[str, Any], goes: bool) -> Iterator[str]:
    """The addresses of resources that stand in a subnet, in whatever stack.

    Where it `goes`, those that stay in it: what goes too may be deleted before it.
    """
    name = subnet.get("id")
    if not isinstance(name, str):
        return
    for other in (*subject.changes, *subject.others):
        kind, change = other["type"], other["change"]
        if kind == _SUBNET or kind.endswith("_association") or "role_" in kind:
            continue
        if goes and "delete" in change["actions"]:
            continue
        if _holds(change.get("before"), name) and (not goes or _holds(change.get("after"), name)):
            yield other["address"]


def _holds(value: Any, text: str) -> bool:
    if isinstance(value, dict):
        return any(_holds(item, text) for item in value.values())
    if isinstance(value, list):
        return any(_holds(item, text) for item in value)
    return bool(value == text)


@check("refused-by-azure", Severity.ERROR, Subject.PLAN, at=_sizes)
def refused_by_azure(
    address: str,
    type: str,  # noqa: A002
    actions: Sequence[str],
    before: Mapping[str, Any],
    after: Mapping[str, Any],
    users: Collection[str] = (),
) -> Iterator[Fault]:
    """A change that Terraform plans and Azure refuses, in the middle of an apply.

    A disk cannot shrink, nor change to or from Premium SSD v2 or Ultra. A subnet in use cannot be
    deleted, and an address range in use cannot be removed.

    Wrong:
        resource_changes:
          - address: azurerm_managed_disk.data-disk-0
            type: azurerm_managed_disk
            change: {actions: [update], before: {disk_size_gb: 1024}, after: {disk_size_gb: 512}}

    Right:
        resource_changes:
          - address: azurerm_managed_disk.data-disk-0
            type: azurerm_managed_disk
            change: {actions: [update], before: {disk_size_gb: 512}, after: {disk_size_gb: 1024}}
    """
    if type == _SUBNET and "delete" in actions:
        if users:
            message = f"`{address}` would be deleted while {_some(users)} it: Azure refuses that"
            yield Fault(message, "first delete what is in it, or keep it")
        return
    if type == _SUBNET:
        yield from _narrower(address, before, after, users)
        return
    if type == _MACHINE:
        before, after = (first(side.get("os_disk")) for side in (before, after))
    old, new = before.get("disk_size_gb"), after.get("disk_size_gb")
    if isinstance(old, int | float) and isinstance(new, int | float) and 0 < new < old:
        what = f"the system disk of `{address}`" if type == _MACHINE else f"`{address}`"
        message = f"{what} would shrink from {old} to {new} GiB, and Azure shrinks no disk"
        new_one = "machine" if type == _MACHINE else "file system"
        yield Fault(message, f"keep the size, or make a new {new_one} and copy the data")
    was, kind = str(before.get("storage_account_type")), str(after.get("storage_account_type"))
    fixed = is_kind_of_its_own(was) or is_kind_of_its_own(kind)
    if fixed and was != kind and after.get("storage_account_type"):
        message = (
            f"`{address}` would change from {was} to {kind}, which Azure does for no existing disk"
        )
        yield Fault(message, "keep the kind, or create a new file system and copy the data")


def _narrower(
    address: str, before: Mapping[str, Any], after: Mapping[str, Any], users: Collection[str]
) -> Iterator[Fault]:
    old, new = before.get("address_prefixes"), after.get("address_prefixes")
    if not users or not isinstance(old, list) or not isinstance(new, list):
        return
    lost = [each for each in old if not _is_within(each, new)]
    if lost:
        yield Fault(
            f"`{address}` would lose {', '.join(map(str, lost))}, which {_some(users)}: "
            "Azure refuses that",
            "keep `address_space`; to move, deploy an environment with another name beside "
            "this one",
        )


def _some(users: Collection[str]) -> str:
    most = ", ".join(sorted(users)[:3])
    more = f" and {len(users) - 3} more" if len(users) > 3 else ""
    return f"{most}{more} use{'s' if len(users) == 1 else ''}"


def _is_within(range_: Any, others: Sequence[Any]) -> bool:
    """Whether one of the ranges holds all of that one."""
    try:
        mine = ip_network(range_)
        theirs = [ip_network(other) for other in others]
    except ValueError:
        return range_ in others
    return any(
        mine.version == one.version and mine.subnet_of(one)  # type: ignore[arg-type]
        for one in theirs
    )
