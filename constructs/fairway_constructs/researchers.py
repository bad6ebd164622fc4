"""What people who submit jobs may do with data, which no role on the subscription allows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairway_constructs.azurerm.role_assignment import RoleAssignment
from fairway_constructs.cdk import Lifecycle
from fairway_constructs.unique_name import client_config
from fairway_core.environment.researchers import data_roles, researchers_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fairway_constructs.cdk import Construct
    from fairway_core.environment.researchers import Researcher


def let_submit(
    scope: Construct,
    researchers: Sequence[str] | None,
    *,
    containers: Mapping[str, str],
    batch_account_id: str | None = None,
) -> None:
    """Lets users and groups, by object id, use the containers (ids by name) and the Batch account.

    Without `researchers` that is the deployer; another who deploys later changes nothing.

    >>> let_submit(stack, ["00000000-0000-…"],
    ...            containers={"datasets": container.id})  # doctest: +SKIP
    """
    for person in researchers_of(researchers):
        for each in data_roles(containers, pools=batch_account_id is not None):
            give_researcher(
                scope,
                f"{each.key}-used",
                on=containers[each.container] if each.container else batch_account_id or "",
                person=person,
                role_name=each.role,
                reason=each.reason,
            )


def give_researcher(
    scope: Construct,
    what: str,
    *,
    on: str,
    person: Researcher,
    role_name: str,
    reason: str,
) -> RoleAssignment:
    """Gives a user, a group or the first deployer a built-in role on a resource.

    `what` is done with it, for the address in Terraform: "batch-used" ends in "-by-PERSON".
    """
    return RoleAssignment(
        scope,
        f"{what}-by-{person.key}",
        scope_=on,
        role_definition_name=role_name,
        principal_id=person.object_id or client_config(scope).object_id,
        description=f"{reason}; {person.why}",
        # The first deployer keeps the role when another deploys.
        lifecycle=None if person.object_id else Lifecycle(ignore_changes=["principal_id"]),
    )
