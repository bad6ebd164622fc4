"""A resource group that is there already: it is not made, and stays when all in it is destroyed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairway_constructs.azurerm.data_resource_group import DataResourceGroup
from fairway_constructs.cdk import Component
from fairway_constructs.stop_unless import stop_unless
from fairway_core.resource_ids import parts_of

if TYPE_CHECKING:
    from fairway_constructs.cdk import Construct


class ExistingGroup(Component):
    """An existing resource group that holds everything of an environment.

    Terraform stops where the subscription that it deploys to is not the group's.

    >>> ExistingGroup(stack, group_id="/subscriptions/…/resourceGroups/team")  # doctest: +SKIP
    """

    def __init__(
        self,
        scope: Construct,
        id: str = "group",  # noqa: A002
        *,
        group_id: str,
    ) -> None:
        super().__init__(scope, id)
        self.id = group_id
        self.name = parts_of("resource group", group_id)["name"]
        found = DataResourceGroup(self, "group", name=self.name).reference("id")
        stop_unless(
            self,
            "resource_group",
            # Azure ignores case in ids.
            f'lower({found}) == "{group_id.lower()}"',
            f"{self.name} is in another subscription than Terraform deploys to: correct "
            "`resource_group.existing`, or choose the subscription with ARM_SUBSCRIPTION_ID",
            value=group_id,
            description="Where everything stands",
        )
