"""Rules on resources that a plan deletes or changes, and on locks."""

from __future__ import annotations

import shlex
from ipaddress import ip_network
from typing import TYPE_CHECKING, Any

from fairway_core.catalog.disks import is_inconvertible
from fairway_core.checks.check import Subject, Violation, check
from fairway_core.checks.losses import MANAGEMENT_POLICY, change_losses, deletion_losses
from fairway_core.checks.resource_change import (
    LOCK,
    deleted,
    deletions_below_locks,
    lower_text,
    minor_version,
)
from fairway_core.findings import Severity
from fairway_core.json_values import first_block, leaves

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from fairway_core.checks.check import Match
    from fairway_core.checks.resource_change import Changes, ResourceChange

_CONTAINER = "azurerm_storage_container"
_DISK, _SUBNET = "azurerm_managed_disk", "azurerm_subnet"
_MACHINE = "azurerm_linux_virtual_machine"
_KUBERNETES = "azurerm_kubernetes_cluster"
_LIMITED = (_DISK, _MACHINE, _SUBNET, _KUBERNETES)


def _changes(changes: Changes) -> Iterator[Match]:
    changes = [one for one in changes if one.acts]
    gone = frozenset(str(each.get("id")) for each in deleted(changes))
    created = frozenset(
        (str(each.after.get("storage_account_id")), str(each.after.get("name")))
        for each in changes
        if each.type == _CONTAINER and each.actions == ["create"]
    )
    for each in changes:
        # A new resource removes nothing, except a life cycle.
        if each.actions != ["create"] or each.type == MANAGEMENT_POLICY:
            yield (each.address,), {"change": each, "gone": gone, "created": created}


@check("data-loss", Severity.ERROR, Subject.PLAN, select=_changes)
def data_loss(
    change: ResourceChange, *, gone: Collection[str], created: Collection[tuple[str, str]]
) -> Iterator[Violation]:
    """A change that loses data now or later: a disk or a lock goes, or less is kept than before.

    To accept it, name the resource's address on the command line. Deleted or
    replaced: disks, accounts, containers, shares, volumes, databases, vaults, images, backups,
    logs, Batch accounts, locks, immutability policies, resource groups, and machines with a disk
    of their own. Changed: a life cycle that deletes sooner; versions, soft delete, snapshots,
    backups and logs that are kept for less time; a share, volume or pool that shrinks; a lock or
    an immutability policy that holds less; less replication.

    Wrong:
        azurerm_managed_disk.data-disk-0: {actions: [delete, create], replace_paths: [[zone]]}

    Right:
        azurerm_managed_disk.data-disk-0: {actions: [update]}
    """
    ways: list[str] = []
    if change.goes:
        replaced = "create" in change.actions
        what = "replaced" if replaced else "deleted"
        why = f": {change.reason}" if change.reason else ""
        ends = deletion_losses(change, gone, replaced=replaced)
        ways = [f"would be {what}, {end}{why}" for end in ends]
    if not ways and "forget" not in change.actions and change.actions != ["delete"]:
        ways = list(change_losses(change, created))
    if ways:
        yield Violation(
            f"`{change.address}` {'; '.join(ways)}",
            "keep it as it is, or copy its data first; to accept the loss: pass "
            f"--allow {shlex.quote(change.address)}",
        )


def _sizes(changes: Changes, others: Changes) -> Iterator[Match]:
    for each in changes:
        if (each.type == _SUBNET and each.goes) or (each.type in _LIMITED and each.updates):
            users = list(_users((*changes, *others), each)) if each.type == _SUBNET else []
            yield (each.address,), {"change": each, "users": users}


def _users(changes: Changes, subnet: ResourceChange) -> Iterator[str]:
    """Yields the addresses of resources in a subnet, in any stack.

    If the subnet is deleted, only those that stay in it count: others may be deleted first.
    """
    name = subnet.before.get("id")
    if not isinstance(name, str):
        return
    for other in changes:
        kind = other.type
        if kind == _SUBNET or kind.endswith("_association") or "role_" in kind:
            continue
        if subnet.goes and (other.goes or name not in leaves(other.after)):
            continue
        if name in leaves(other.before):
            yield other.address


@check("refused-by-azure", Severity.ERROR, Subject.PLAN, select=_sizes)
def refused_by_azure(change: ResourceChange, *, users: Collection[str]) -> Iterator[Violation]:
    """A change that Terraform plans and Azure refuses, in the middle of an apply.

    A disk cannot shrink, nor change to or from Premium SSD v2 or Ultra. A subnet in use cannot be
    deleted, and an address range in use cannot be removed. Kubernetes does not go back to an older
    version.

    Wrong:
        azurerm_managed_disk.data-disk-0:
          {actions: [update], before: {disk_size_gb: 1024}, after: {disk_size_gb: 512}}

    Right:
        azurerm_managed_disk.data-disk-0:
          {actions: [update], before: {disk_size_gb: 512}, after: {disk_size_gb: 1024}}
    """
    address, before, after = change.address, change.before, change.after
    if change.type == _SUBNET:
        if not change.goes:
            yield from _narrower(address, before, after, users)
        elif users:
            message = f"`{address}` would be deleted while {_some(users)} it: Azure refuses that"
            yield Violation(message, "first delete what is in it, or keep it")
        return
    if change.type == _KUBERNETES:
        later, earlier = (minor_version(side) for side in (before, after))
        if later and earlier and earlier < later:
            message = f"`{address}` would go back from Kubernetes 1.{later} to 1.{earlier}"
            yield Violation(message, f'keep "1.{later}"')
        return
    if change.type == _MACHINE:
        before, after = (first_block(side.get("os_disk")) for side in (before, after))
    old, new = before.get("disk_size_gb"), after.get("disk_size_gb")
    if isinstance(old, int | float) and isinstance(new, int | float) and 0 < new < old:
        what = f"the system disk of `{address}`" if change.type == _MACHINE else f"`{address}`"
        message = f"{what} would shrink from {old} to {new} GiB, and Azure shrinks no disk"
        new_one = "machine" if change.type == _MACHINE else "file system"
        yield Violation(message, f"keep the size, or make a new {new_one} and copy the data")
    was, kind = str(before.get("storage_account_type")), str(after.get("storage_account_type"))
    fixed = is_inconvertible(was) or is_inconvertible(kind)
    if fixed and was != kind and after.get("storage_account_type"):
        change_ = f"`{address}` would change from {was} to {kind}"
        yield Violation(
            f"{change_}, which Azure does for no existing disk",
            "keep the kind, or create a new file system and copy the data",
        )


def _narrower(
    address: str, before: Mapping[str, Any], after: Mapping[str, Any], users: Collection[str]
) -> Iterator[Violation]:
    old, new = before.get("address_prefixes"), after.get("address_prefixes")
    if not users or not isinstance(old, list) or not isinstance(new, list):
        return
    lost = [each for each in old if not _is_within(each, new)]
    if lost:
        yield Violation(
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
    """Returns True if one of the other ranges contains this one."""
    try:
        mine = ip_network(range_)
        theirs = [ip_network(other) for other in others]
    except ValueError:
        return range_ in others
    return any(
        mine.version == one.version and mine.subnet_of(one)  # type: ignore[arg-type]
        for one in theirs
    )


@check("held-by-lock", Severity.ERROR, Subject.PLAN)
def held_by_lock(changes: Changes) -> Iterator[Violation]:
    """Something is deleted below a lock, such as a role on a locked account: Azure refuses that.

    `fairway plan --allow LOCK` plans it without the lock; `fairway deploy` applies that, and then
    makes the lock again.

    Wrong:
        azurerm_role_assignment.used-by-ada: {actions: [delete], before: {id: /a/providers/b}}
        azurerm_management_lock.storage-lock:
          {actions: [no-op], before: {scope: /a}, after: {scope: /a}}

    Right:
        azurerm_role_assignment.used-by-ada: {actions: [delete], before: {id: /a/providers/b}}
        azurerm_management_lock.registry-lock:
          {actions: [no-op], before: {scope: /r}, after: {scope: /r}}
    """
    for each, lock in deletions_below_locks(changes):
        message = f"`{each.address}` would be deleted below `{lock.address}`: Azure refuses that"
        hint = (
            "take the lock away for this, and have it put back: "
            f"fairway plan --allow {lock.address}"
            if lock.before
            else "deploy it by `fairway deploy`, which makes the lock afterwards"
        )
        yield Violation(message, hint, (each.address,))


@check("unlocked", Severity.WARNING, Subject.PLAN)
def unlocked(changes: Changes) -> Iterator[Violation]:
    """A resource that is in Azure without the lock that the environment file asks for.

    Its lock was taken away, for a deployment that stopped or by hand; or `protect` is new.

    Wrong:
        azurerm_storage_account.storage: {actions: [no-op], before: {id: /a}, after: {id: /a}}
        azurerm_management_lock.storage-lock: {actions: [create], after: {scope: /a}}

    Right:
        azurerm_storage_account.storage: {actions: [no-op], before: {id: /a}, after: {id: /a}}
        azurerm_management_lock.storage-lock:
          {actions: [no-op], before: {scope: /a}, after: {scope: /a}}
    """
    there = {
        id_: each.address
        for each in changes
        if not each.goes and (id_ := lower_text(each.before, "id"))
    }
    for each in changes:
        on = there.get(lower_text(each.after, "scope"))
        if on is not None and each.type == LOCK and each.actions == ["create"]:
            yield Violation(
                f"`{on}` is in Azure without its lock: this makes `{each.address}`",
                "apply it soon: until then anyone with the right to delete it can",
                (each.address,),
            )
