"""The stack `NAME-state`: the storage account in which the other stacks keep their state.

It is written only when asked for, with FAIRWAY_STACKS=state, and keeps its own state in a file
beside cdktf.json: an account cannot hold the state that it is made from.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairway_constructs.azurerm.role_assignment import RoleAssignment
from fairway_constructs.cdk import Lifecycle
from fairway_constructs.environment_stack import EnvironmentStack
from fairway_constructs.network_access import public_ranges
from fairway_constructs.scope import client_config
from fairway_constructs.storage import Storage
from fairway_core.environment import AzurermState
from fairway_core.findings import UserError
from fairway_stacks.state import local_state

if TYPE_CHECKING:
    from fairway_core.environment import Environment
    from fairway_stacks.stack import Project


def state_to_make(environment: Environment) -> AzurermState:
    """The environment's own; UserError where it is in files, or where nobody could reach it."""
    state = environment.state
    if not isinstance(state, AzurermState):
        raise UserError.of(
            "no-remote-state",
            f"`{environment.name}` keeps its state in files: there is no account to make",
            "add `state: {backend: azurerm, …}` to the environment file",
        )
    if not state.public_access and not public_ranges(environment.access.allowed):
        raise UserError.of(
            "unreachable-state",
            f"nobody could reach the state in `{state.storage_account}`",
            "name public ranges under `access.allowed`, or set `state.public_access: true`",
        )
    return state


class StateStack(EnvironmentStack):
    """A resource group with an account for state, and the right to use it for its maker."""

    def __init__(self, project: Project, environment: Environment, state: AzurermState) -> None:
        name = f"{environment.name}-state"
        super().__init__(
            project.app,
            name,
            environment=environment.name,
            group_name=state.resource_group,
            location=environment.location,
            zone=environment.zone_number,
            tags=environment.tags,
            protect=environment.protect,
            naming=environment.names,
            short_addresses=True,
            checks=False,
        )
        local_state(self, name, project=project.folder, outdir=project.outdir)
        storage = Storage(
            self,
            containers=[state.container],
            account=state.storage_account,
            allowed=environment.access.allowed,
            public=state.public_access,
        )
        RoleAssignment(
            self,
            "maker",
            scope_=storage.containers[state.container].id,
            role_definition_name="Storage Blob Data Contributor",
            principal_id=client_config(self).object_id,
            description="Terraform state access for the deployer",
            # Another person who applies this one does not take the role from the first.
            lifecycle=Lifecycle(ignore_changes=["principal_id"]),
        )
