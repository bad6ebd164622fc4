"""What a scheduler may do: start and delete nodes of its own scale sets, and nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairway_constructs.azurerm.role_assignment import RoleAssignment
from fairway_constructs.azurerm.role_definition import Permissions, RoleDefinition
from fairway_constructs.unique_name import client_config, unique_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fairway_constructs.cdk import Construct
    from fairway_constructs.placement import Placement

_ACTIONS = (
    # How many there are, and which.
    "Microsoft.Compute/virtualMachineScaleSets/read",
    "Microsoft.Compute/virtualMachineScaleSets/virtualMachines/read",
    # One more, and one less by its number.
    "Microsoft.Compute/virtualMachineScaleSets/write",
    "Microsoft.Compute/virtualMachineScaleSets/delete/action",
    # New instances stand in the subnet and have the identity of nodes.
    "Microsoft.Network/virtualNetworks/subnets/join/action",
    "Microsoft.ManagedIdentity/userAssignedIdentities/assign/action",
)


def let_scale(
    scope: Construct,
    *,
    place: Placement,
    principal_id: str,
    scale_sets: Mapping[str, str],
    subnet_id: str,
    identity_id: str,
) -> None:
    """Gives the scheduler a role of those few actions, on each of the resources that they need.

    No built-in role is as narrow. The role is made for the subscription, where alone it can be
    made, and is worth something only on these resources.
    """
    subscription = f"/subscriptions/{client_config(scope).subscription_id}"
    role = RoleDefinition(
        scope,
        "slurm-role",
        name=unique_name(scope, "role_definition", place),
        scope_=subscription,
        description=f"The Slurm scheduler of {place.environment} starts and deletes nodes",
        permissions=[Permissions(actions=list(_ACTIONS))],
        assignable_scopes=[subscription],
    )
    role_id = role.role_definition_resource_id
    reason = "The Slurm scheduler starts and deletes nodes"
    grants = {f"scales-{name}": (resource, reason) for name, resource in scale_sets.items()}
    grants["joins-subnet"] = (subnet_id, f"{reason}, which stand in this subnet")
    grants["assigns-identity"] = (identity_id, f"{reason}, which have this identity")
    for key, (resource, why) in grants.items():
        RoleAssignment(
            scope,
            f"slurm-{key}",
            scope_=resource,
            role_definition_id=role_id,
            principal_id=principal_id,
            principal_type="ServicePrincipal",
            skip_service_principal_aad_check=True,
            description=why,
        )
