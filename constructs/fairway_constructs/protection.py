"""Protection of data against accidental deletion, by Terraform or by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairway_constructs.arguments import checked
from fairway_constructs.azurerm.management_lock import ManagementLock
from fairway_constructs.cdk import Lifecycle, Resource, context_of
from fairway_constructs.scope import azure_scope_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fairway_constructs.cdk import Construct

# The arguments that name the parent of a resource, by its id or by its name.
_INSIDE = ("scope", "storage_account_id", "target_resource_id", "recovery_vault_name")


@checked
def lifecycle_of(scope: Construct) -> Lifecycle | None:
    """Returns the lifecycle of a resource that holds data: if that is protected, Terraform refuses
    to destroy it.

    >>> ResourceGroup(stack, "own", name="own", location="westeurope",
    ...               lifecycle=lifecycle_of(stack))
    """
    return Lifecycle(prevent_destroy=True) if azure_scope_of(scope).protect else None


@checked
def delete_lock(scope: Construct, *, id: str, on: Resource, lock: bool | None = None) -> None:
    """Creates a delete lock on a resource that holds data: Azure lets nobody delete it.

    It is created if data is protected, unless `lock` says otherwise.

    >>> own = ResourceGroup(stack, "own", name="own", location="westeurope")
    >>> delete_lock(stack, id="own-lock", on=own, lock=True)
    """
    azure = azure_scope_of(scope)
    if not (azure.protect if lock is None else lock):
        return
    made = _Lock(
        scope,
        f"{id}-lock",
        name=azure.name("management_lock", id),
        scope_=on.reference("id"),
        lock_level="CanNotDelete",
        notes="Protects data. Set `protect` to false to remove this lock.",
    )
    made.on = on


class _Lock(ManagementLock):
    """A lock, created after and destroyed before all below it: Azure deletes nothing there."""

    on: Resource

    def _comes_after(self) -> Iterator[Resource]:
        """Yields the resources inside the locked one, at any depth, that are in this stack."""
        # Other locks do not count.
        left = [
            each
            for each in context_of(self).stack.node.find_all()
            if isinstance(each, Resource) and not isinstance(each, ManagementLock)
        ]
        around: list[Resource] = [self.on]
        while around:
            tokens = list(vars(around.pop()).get("_tokens", {}).values())
            found = [each for each in left if _names(each, tokens)]
            left = [each for each in left if each not in found]
            around += found
            yield from found


def _names(resource: Resource, tokens: Sequence[str]) -> bool:
    """Returns True if an argument for the resource's parent holds one of these references."""
    named = [str(resource._attributes.get(each)) for each in _INSIDE]
    return any(token in name for token in tokens for name in named)
