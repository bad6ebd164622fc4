"""What a scheduler may do: start and delete nodes of its own scale sets, and read why it failed."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from fairway_constructs.identity_role import give_role
from fairway_constructs.own_role import own_role, subscription_of
from fairway_constructs.scope import place_of
from fairway_constructs.unique_name import unique_name
from fairway_core.slurm.rights import PLACES, READS_OPERATIONS, SCALES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fairway_constructs.cdk import Construct
    from fairway_constructs.network_access import SubnetRef


def let_scale(
    scope: Construct,
    *,
    principal_id: str,
    scale_sets: Mapping[str, str],
    subnet: SubnetRef,
    identity_id: str,
    images: Mapping[str, str],
    placements: Mapping[str, str],
) -> None:
    """Gives the scheduler a role of those few actions, on each of the resources that they need.

    No built-in role is as narrow. Roles are made for the subscription, where alone they can be
    made; the first is worth something only on these resources, and the second only reads what
    became of an operation, in the whole subscription, since there it is. `images` of a gallery and
    proximity placement groups are what new instances refer to, by the name of a partition.
    """
    place = place_of(scope)
    give = partial(give_role, scope, principal_id=principal_id)
    reason = "The Slurm scheduler starts and deletes nodes"
    scales = own_role(
        scope,
        "slurm-role",
        name=unique_name(scope, "role_definition"),
        description=f"The Slurm scheduler of {place.environment} starts and deletes nodes",
        actions=(*SCALES, *([PLACES] if placements else ())),
    )
    grants = {f"scales-{name}": (resource, reason) for name, resource in scale_sets.items()}
    grants["joins-subnet"] = (subnet.id, f"{reason}, which stand in this subnet")
    grants["assigns-identity"] = (identity_id, f"{reason}, which have this identity")
    for name, resource in placements.items():
        grants[f"places-{name}"] = (resource, f"{reason}, which stand in this placement group")
    for key, (resource, why) in grants.items():
        give(f"slurm-{key}", on=resource, role_id=scales, why=why)
    told = own_role(
        scope,
        "slurm-operations-role",
        name=unique_name(scope, "role_definition", "operations"),
        description=f"The Slurm scheduler of {place.environment} reads why Azure made no node",
        actions=(READS_OPERATIONS,),
    )
    why = "The Slurm scheduler reads why Azure made no node"
    give("slurm-reads-operations", on=subscription_of(scope), role_id=told, why=why)
    for name, resource in images.items():
        why = f"{reason}, which have this image"
        give(f"slurm-reads-image-{name}", on=resource, role_name="Reader", why=why)
