"""Roles on data for users who submit jobs, and for the page that submits for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairway_constructs.azurerm.role_assignment import RoleAssignment
from fairway_constructs.azurerm.virtual_machine_run_command import Source, VirtualMachineRunCommand
from fairway_constructs.cdk import Lifecycle
from fairway_constructs.cloud_init import terraform_text
from fairway_constructs.identity import Identity
from fairway_constructs.scope import azure_scope_of, client_config
from fairway_core.environment.access import data_roles, researchers_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fairway_constructs.cdk import Construct
    from fairway_constructs.cloud_init.web import WebPage
    from fairway_core.environment import Web
    from fairway_core.environment.access import Researcher


def grant_submit(
    scope: Construct,
    researchers: Sequence[str] | None,
    *,
    containers: Mapping[str, str],
    batch_account_id: str | None = None,
) -> None:
    """Lets users and groups, by object id, use the containers (ids by name) and the Batch account.

    Without `researchers` that is the deployer; a later deployment by another user changes nothing.
    """
    for person in researchers_of(researchers):
        for each in data_roles(containers, pools=batch_account_id is not None):
            assign_user_role(
                scope,
                f"{each.key}-used",
                on=containers[each.container] if each.container else batch_account_id or "",
                person=person,
                role_name=each.role,
                reason=each.reason,
            )


def assign_user_role(
    scope: Construct, what: str, *, on: str, person: Researcher, role_name: str, reason: str
) -> RoleAssignment:
    """Grants a user, a group or the first deployer a built-in role on a resource.

    `what` names the use of the resource in Terraform's address: "batch-used" ends in "-by-PERSON".
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


_NAME = "web"
_WHY = "the page submits for its people"


def page_identity(
    scope: Construct,
    *,
    web: Web,
    containers: Mapping[str, str],
    batch_account_id: str | None = None,
) -> Identity:
    """Creates the identity of the page's server: it reads two secrets of the vault, and has the
    roles on data and pools of a user who submits. `containers` are ids by name.
    """
    identity = Identity(scope, _NAME)
    for key, name, what in (
        ("certificate", web.certificate, "its certificate"),
        ("client-secret", web.client_secret, "the secret by which it signs people in"),
    ):
        secret = f"{web.vault}/secrets/{name}"
        identity.grant(key, "Key Vault Secrets User", on=secret, reason=f"The page reads {what}")
    for each in data_roles(containers, pools=batch_account_id is not None):
        resource = containers[each.container] if each.container else batch_account_id or ""
        identity.grant(each.key, each.role, on=resource, reason=f"{each.reason}; {_WHY}")
    return identity


def serve_page(
    scope: Construct, page: WebPage, *, virtual_machine_id: str
) -> VirtualMachineRunCommand:
    """Makes Azure run the script on the machine, again whenever it changes; the VM stays.

    Source: Azure documentation, "Run scripts in your Linux VM by using managed Run Commands".
    """
    azure = azure_scope_of(scope)
    return VirtualMachineRunCommand(
        scope,
        "page",
        name="fairway-web",
        location=azure.location,
        virtual_machine_id=virtual_machine_id,
        source=Source(script=f"${{{terraform_text(page.setup_script())}}}"),
        tags=azure.tags,
    )
