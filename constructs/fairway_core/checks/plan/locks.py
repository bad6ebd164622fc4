"""Rules on locks: Azure deletes nothing below one, and data without one is less safe."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairway_core.checks.check import Fault, Subject, check
from fairway_core.checks.plan.resource_changes import LOCK, held, lower_text
from fairway_core.findings import Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fairway_core.checks.check import Occurrence
    from fairway_core.checks.subjects import PlanSubject


def _held(subject: PlanSubject) -> Iterator[Occurrence]:
    for each, lock in held(subject.changes):
        arguments = {"address": each.address, "lock": lock.address, "there": bool(lock.before)}
        yield (each.address,), arguments


@check("held-by-lock", Severity.ERROR, Subject.PLAN, at=_held)
def held_by_lock(address: str, lock: str, there: bool) -> Iterator[Fault]:
    """Something is deleted below a lock, such as a role on a locked account: Azure refuses that.

    `fairway plan --allow LOCK` plans it without the lock; `fairway deploy` applies that, and then
    makes the lock again.

    Wrong:
        resource_changes:
          - address: azurerm_role_assignment.used-by-ada
            type: azurerm_role_assignment
            change: {actions: [delete], before: {id: /a/providers/b}}
          - address: azurerm_management_lock.storage-lock
            type: azurerm_management_lock
            change: {actions: [no-op], before: {scope: /a}, after: {scope: /a}}

    Right:
        resource_changes:
          - address: azurerm_role_assignment.used-by-ada
            type: azurerm_role_assignment
            change: {actions: [delete], before: {id: /a/providers/b}}
          - address: azurerm_management_lock.registry-lock
            type: azurerm_management_lock
            change: {actions: [no-op], before: {scope: /r}, after: {scope: /r}}
    """
    hint = (
        f"take the lock away for this, and have it put back: fairway plan --allow {lock}"
        if there
        else "deploy it by `fairway deploy`, which makes the lock afterwards"
    )
    yield Fault(f"`{address}` would be deleted below `{lock}`: Azure refuses that", hint)


def _new_locks(subject: PlanSubject) -> Iterator[Occurrence]:
    there = {
        id_: each.address
        for each in subject.changes
        if not each.goes and (id_ := lower_text(each.before, "id"))
    }
    for each in subject.changes:
        if each.type == LOCK and each.actions == ["create"]:
            on = there.get(lower_text(each.after, "scope"))
            if on is not None:
                yield (each.address,), {"address": each.address, "on": on}


@check("unlocked", Severity.WARNING, Subject.PLAN, at=_new_locks)
def unlocked(address: str, on: str) -> Iterator[Fault]:
    """A resource that is in Azure without the lock that the environment file asks for.

    Its lock was taken away, for a deployment that stopped or by hand; or `protect` is new.

    Wrong:
        resource_changes:
          - address: azurerm_storage_account.storage
            type: azurerm_storage_account
            change: {actions: [no-op], before: {id: /a}, after: {id: /a}}
          - address: azurerm_management_lock.storage-lock
            type: azurerm_management_lock
            change: {actions: [create], after: {scope: /a}}

    Right:
        resource_changes:
          - address: azurerm_storage_account.storage
            type: azurerm_storage_account
            change: {actions: [no-op], before: {id: /a}, after: {id: /a}}
          - address: azurerm_management_lock.storage-lock
            type: azurerm_management_lock
            change: {actions: [no-op], before: {scope: /a}, after: {scope: /a}}
    """
    yield Fault(
        f"`{on}` is in Azure without its lock: this makes `{address}`",
        "apply it soon: until then anyone with the right to delete it can",
    )
