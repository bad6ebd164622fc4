"""Signing in to a VM over SSH by Entra ID, without keys."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairway_constructs.azurerm.role_assignment import RoleAssignment
from fairway_constructs.azurerm.virtual_machine_extension import VirtualMachineExtension
from fairway_constructs.scope import place_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fairway_constructs.cdk import Construct

_NAME = "AADSSHLoginForLinux"


def let_sign_in(
    scope: Construct,
    name: str,
    people: Mapping[str, bool],
    *,
    virtual_machine_id: str,
) -> None:
    """Lets people sign in to one VM, which needs an identity of its own (SystemAssigned) for that.

    `people` are object ids, each with whether the person may use sudo. Source: Azure documentation,
    "Sign in to a Linux virtual machine in Azure by using Microsoft Entra ID and OpenSSH".

    >>> let_sign_in(stack, "box", {"00000000-0000-…": False},
    ...             virtual_machine_id=vm.id)  # doctest: +SKIP
    """
    VirtualMachineExtension(
        scope,
        f"{name}-entra-login",
        name=_NAME,
        virtual_machine_id=virtual_machine_id,
        publisher="Microsoft.Azure.ActiveDirectory",
        type=_NAME,
        type_handler_version="1.0",
        auto_upgrade_minor_version=True,
        tags=place_of(scope).tags,
    )
    for person, is_admin in people.items():
        kind = "Administrator" if is_admin else "User"
        RoleAssignment(
            scope,
            f"{name}-signed-in-to-by-{person}",
            scope_=virtual_machine_id,
            role_definition_name=f"Virtual Machine {kind} Login",
            principal_id=person,
            description="Signs in by Entra ID; named under access.users",
        )
