"""A role for an identity: one that the environment has made, or an Azure service's own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairway_constructs.azurerm.role_assignment import RoleAssignment

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fairway_constructs.cdk import Construct, ITerraformDependable


def give_role(
    scope: Construct,
    id: str,  # noqa: A002
    *,
    on: str,
    principal_id: str,
    why: str,
    new: bool = True,
    role_id: str | None = None,
    role_name: str | None = None,
    depends_on: Sequence[ITerraformDependable] = (),
) -> RoleAssignment:
    """Gives it a role on a resource: a built-in one by `role_name`, another by `role_id`.

    `new` is for what the environment makes; a service principal that is there already is not.
    """
    return RoleAssignment(
        scope,
        id,
        scope_=on,
        role_definition_id=role_id,
        role_definition_name=role_name,
        principal_id=principal_id,
        principal_type="ServicePrincipal",
        # The directory may not know the new identity yet; Azure then asks it again.
        skip_service_principal_aad_check=True if new else None,
        description=why,
        depends_on=depends_on,
    )
