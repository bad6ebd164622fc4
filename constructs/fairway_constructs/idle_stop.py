"""Machines that may stop themselves: see `fairway_boot/idle_stop.py` for when they do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairway_constructs.cdk import Component
from fairway_constructs.identity_role import give_role
from fairway_constructs.own_role import own_role
from fairway_constructs.unique_name import unique_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fairway_constructs.cdk import Construct

# Azure takes the same word for a VM and for all nodes of a scale set.
_ACTIONS = tuple(
    f"Microsoft.Compute/{kind}/deallocate/action"
    for kind in ("virtualMachines", "virtualMachineScaleSets")
)


class IdleStop(Component):
    """Lets the identity of nodes stop clusters, given by name with the resource id of the VM or
    scale set, and nothing else there.

    >>> IdleStop(stack, principal_id=identity.principal_id,
    ...          clusters={"box": box.id})  # doctest: +SKIP
    """

    def __init__(
        self,
        scope: Construct,
        id: str = "idle-stop",  # noqa: A002
        *,
        principal_id: str,
        clusters: Mapping[str, str],
    ) -> None:
        super().__init__(scope, id)
        place = self.place
        role_id = own_role(
            self,
            "idle-role",
            name=unique_name(self, "role_definition", "idle"),
            description=f"Machines of {place.environment} stop themselves",
            actions=_ACTIONS,
        )
        for name, machines in clusters.items():
            give_role(
                self,
                f"idle-{name}",
                on=machines,
                role_id=role_id,
                principal_id=principal_id,
                why=f"{name} stops itself when nobody uses it",
            )
