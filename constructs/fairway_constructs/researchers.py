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


# Of the deployer: the first keeps the roles.
_OWN = ["principal_id"]


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
        is_deployer = person.object_id is None
        for each in data_roles(containers, pools=batch_account_id is not None):
            RoleAssignment(
                scope,
                f"{each.key}-used-by-{person.key}",
                scope_=containers[each.container] if each.container else batch_account_id or "",
                role_definition_name=each.role,
                principal_id=person.object_id or client_config(scope).object_id,
                description=f"{each.reason}; {person.why}",
                lifecycle=Lifecycle(ignore_changes=_OWN) if is_deployer else None,
            )
