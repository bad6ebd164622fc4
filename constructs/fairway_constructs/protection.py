"""What keeps data from being deleted by mistake, by Terraform or by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairway_constructs.azurerm.management_lock import ManagementLock
from fairway_constructs.cdk import Lifecycle

if TYPE_CHECKING:
    from fairway_constructs.cdk import Construct
    from fairway_constructs.placement import Placement


def kept(protect: bool) -> Lifecycle | None:
    """The lifecycle of a resource that holds data: Terraform refuses to destroy it."""
    return Lifecycle(prevent_destroy=True) if protect else None


def lock(scope: Construct, *, place: Placement, id: str, resource_id: str) -> ManagementLock:  # noqa: A002
    """A delete lock on a resource that holds data: Azure refuses to delete it for anyone."""
    return ManagementLock(
        scope,
        f"{id}-lock",
        name=place.name("management_lock", id),
        scope_=resource_id,
        lock_level="CanNotDelete",
        notes="Holds data; `protect: true` in the environment file.",
    )
