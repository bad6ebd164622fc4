"""What people who submit jobs may do with data, which no role on the subscription allows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairway_constructs.azurerm.role_assignment import RoleAssignment
from fairway_constructs.cdk import Lifecycle
from fairway_constructs.unique_name import client_config

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

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

    Without `researchers` that is the deployer; another who deploys later changes nothing. Owner
    and Contributor may not: Azure asks for a role on the data itself. Source: Azure documentation,
    built-in roles for Storage and Batch.

    >>> let_submit(stack, ["00000000-0000-…"],
    ...            containers={"datasets": container.id})  # doctest: +SKIP
    """
    who: dict[str, tuple[str, str, Lifecycle | None]]
    if researchers is None:
        deployer = client_config(scope).object_id
        who = {"deployer": (deployer, "deployed this first", Lifecycle(ignore_changes=_OWN))}
    else:
        who = {each: (each, "named under access.researchers", None) for each in researchers}
    for key, (principal_id, why, lifecycle) in who.items():
        for name, resource_id, role, reason in _grants(containers, batch_account_id):
            RoleAssignment(
                scope,
                f"{name}-used-by-{key}",
                scope_=resource_id,
                role_definition_name=role,
                principal_id=principal_id,
                description=f"{reason}; {why}",
                lifecycle=lifecycle,
            )


def _grants(
    containers: Mapping[str, str], batch_account_id: str | None
) -> Iterator[tuple[str, str, str, str]]:
    for name, container_id in containers.items():
        role = "Storage Blob Data Contributor"
        yield f"container-{name}", container_id, role, f"Reads and writes the container {name}"
    if batch_account_id:
        yield "batch", batch_account_id, "Azure Batch Data Contributor", "Submits jobs"
