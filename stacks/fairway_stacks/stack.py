"""The common part of an environment's stacks: provider, tags, and the place of the state.

The stack `NAME-state` is the storage account in which the other stacks keep their state. It is
written only on request, with FAIRWAY_STACKS=state, and keeps its own state in a file beside
cdktf.json: an account cannot hold the state that it is created from.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairway_agent.quick import dataclass
from fairway_constructs.azurerm.role_assignment import RoleAssignment
from fairway_constructs.cdk import Lifecycle
from fairway_constructs.cloud_init.mounts import machine_proxy
from fairway_constructs.environment_stack import EnvironmentStack
from fairway_constructs.network_access import public_ranges
from fairway_constructs.scope import client_config
from fairway_constructs.storage import Storage
from fairway_core.environment import AzurermState
from fairway_core.findings import UserError
from fairway_stacks.state import keep_state, local_state

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from fairway_constructs.cdk import App
    from fairway_core.environment import Environment


# The suffixes of the names of an environment's stacks, in the order of their creation.
ROLES = ("network", "data", "compute")


@dataclass(frozen=True, kw_only=True)
class Project:
    """The CDK app, the folder of cdktf.json, and the output folder for Terraform's files."""

    app: App
    folder: Path
    outdir: Path


class RoleStack(EnvironmentStack):
    """A stack of an environment file, named after it and its role: `demo-network`."""

    def __init__(self, project: Project, environment: Environment, role: str) -> None:
        name = f"{environment.name}-{role}"
        super().__init__(
            project.app,
            name,
            environment=environment.name,
            role=role,
            location=environment.location,
            zone=environment.zone_number,
            tags=environment.tags,
            resource_group=(
                environment.resource_group.existing if environment.resource_group else None
            ),
            proxy=machine_proxy(environment.network.proxy, environment.network.ranges.values()),
            ssh_keys=environment.access.ssh_keys or (),
            protect=environment.protect,
            naming=environment.names,
            # A Logic App that outlived its schedule would continue to stop nodes.
            deletes_deployed=role == "compute",
            short_addresses=True,
            checks=False,  # `write_stacks` runs them, with the facts of the file
        )
        keep_state(self, name, environment.state, project=project.folder, outdir=project.outdir)


def referred_to(clusters: Mapping[str, object], field: str) -> dict[str, str]:
    """Returns the resource ids in a field of clusters: each id once, by the first cluster with it.

    >>> from types import SimpleNamespace as Cluster
    >>> referred_to({"a": Cluster(image_id="i"), "b": Cluster(image_id="i")}, "image_id")
    {'a': 'i'}
    """
    found: dict[str, str] = {}
    for name, cluster in clusters.items():
        resource = getattr(cluster, field)
        if resource and resource not in found.values():
            found[name] = resource
    return found


def state_to_make(environment: Environment) -> AzurermState:
    """Returns the environment's state. Raises UserError if it is in files, or not reachable."""
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
    """A resource group with an account for state, and its creator's role to use it."""

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
            # Another user who applies this stack does not take the role from the first.
            lifecycle=Lifecycle(ignore_changes=["principal_id"]),
        )
