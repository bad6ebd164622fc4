"""The resource group of an environment, where it may not make its own."""

from __future__ import annotations

from fairway_core.documents import Model
from fairway_core.resource_ids import ResourceGroupId


class ResourceGroup(Model, defer_build=True):
    """A resource group that is there already, in place of the three that are made.

    It is neither changed nor deleted with the environment. What is made in it has names that begin
    with the environment's, but for private DNS zones, whose names are Azure's.
    """

    existing: ResourceGroupId
    """The id of the group, in the subscription to which Terraform deploys; its region does not
    matter."""
