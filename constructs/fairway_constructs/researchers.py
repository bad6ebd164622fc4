"""What people who submit jobs may do with data, which no role on the subscription allows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairway_constructs.azurerm.role_assignment import RoleAssignment

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fairway_constructs.cdk import Construct


def let_submit(
    scope: Construct,
    researchers: Sequence[str],
    *,
    storage_account_id: str,
    batch_account_id: str | None = None,
) -> None:
    """Lets users and groups, by object id, use the blobs, and the Batch account where there is one.

    Owner and Contributor do not: Azure asks for a role on the data itself. Source: Azure
    documentation, built-in roles for Storage and Batch.

    >>> let_submit(stack, ["00000000-0000-…"], storage_account_id=storage.id)  # doctest: +SKIP
    """
    grants = [
        ("blobs", storage_account_id, "Storage Blob Data Contributor", "Reads and writes data")
    ]
    if batch_account_id:
        grants.append(("batch", batch_account_id, "Azure Batch Data Contributor", "Submits jobs"))
    for researcher in researchers:
        for name, resource_id, role, reason in grants:
            RoleAssignment(
                scope,
                f"{name}-used-by-{researcher}",
                scope_=resource_id,
                role_definition_name=role,
                principal_id=researcher,
                description=f"{reason}; named under access.researchers",
            )
