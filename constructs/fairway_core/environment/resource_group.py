"""The resource group of an environment, where it may not make its own."""

from __future__ import annotations

from fairway_core.documents import Model
from fairway_core.resource_ids import ResourceGroupId


class ResourceGroup(Model, defer_build=True):
    """An existing resource group, in place of one per stack.

    The group is neither changed nor deleted with the environment. The names of resources in it
    begin with the environment's name, except private DNS zones, whose names Azure prescribes.
    """

    existing: ResourceGroupId
    """The id of the group, in the subscription to which Terraform deploys; its region does not
    matter."""
