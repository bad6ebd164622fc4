"""The common part of an environment's stacks: provider, tags, and the place of the state.

The stack `NAME-state` is the storage account in which the other stacks keep their state. It is
written only on request, with FAIRWAY_STACKS=state, and keeps its own state in a file beside
cdktf.json: an account cannot hold the state that it is created from.
"""

from __future__ import annotations

import os
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from fairway_agent.quick import dataclass
from fairway_constructs.azurerm.role_assignment import RoleAssignment
from fairway_constructs.cdk import Backend, CloudBackend, Lifecycle, NamedCloudWorkspace, Output
from fairway_constructs.cloud_init.mounts import machine_proxy
from fairway_constructs.environment_stack import EnvironmentStack
from fairway_constructs.network_access import public_ranges
from fairway_constructs.scope import client_config
from fairway_constructs.storage import Storage
from fairway_core.catalog.tables import table
from fairway_core.environment import AzurermState
from fairway_core.findings import UserError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from fairway_constructs.cdk import App, Stack
    from fairway_core.environment import Environment, LocalState, OtherState

# Terraform runs in OUTDIR/stacks/STACK, and a stack that reads another's outputs runs in a
# folder beside it: one relative path is right for both.
_STACKS = "stacks"
# The placeholder for the stack's name in an address. Without it the name comes last; GitLab's lock
# of a state is below the name.
_STACK = "{stack}"


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

    def publish(self, name: str, value: object, description: str) -> None:
        """Adds an output, for users and for other programs."""
        Output(self, name, value=value, description=description, static_id=True)


def keep_state(
    stack: Stack,
    name: str,
    state: LocalState | AzurermState | OtherState,
    *,
    project: Path,
    outdir: Path,
) -> None:
    """Configures the backend that the environment names for the state of stack `name`.

    Stacks that read its outputs find the state by the same settings, which cdktf passes on.
    """
    facts = table("backends")["backends"][state.backend]
    settings: dict[str, Any] = state.model_dump(mode="json", exclude={*type(state).model_fields})
    settings |= {block: [settings[block]] for block in facts.get("sets", ()) if block in settings}
    if isinstance(state, AzurermState):
        settings = {
            "resource_group_name": state.resource_group,
            "storage_account_name": state.storage_account,
            "container_name": state.container,
            # With the identity that runs Terraform: the account has no keys.
            "use_azuread_auth": True,
            **settings,
        }
    if named := facts.get("named"):
        settings[named] = f"{settings.get(named, '')}{name}{facts.get('ends', '')}"
    match state.backend:
        case "local":
            local_state(stack, name, settings, project=project, outdir=outdir)
            return
        case "http":
            for each in settings.keys() & {"address", "lock_address", "unlock_address"}:
                address, mark, query = settings[each].partition("?")
                if _STACK not in address:
                    address = f"{address.rstrip('/')}/{_STACK}"
                settings[each] = f"{address.replace(_STACK, name)}{mark}{query}"
        case "remote" | "cloud":
            workspaces: dict[str, Any] = settings.pop("workspaces", {})
            workspaces |= {k: settings.pop(k) for k in ("prefix", "project") if k in settings}
            before = workspaces.pop("prefix", workspaces.get("name", ""))
            settings["workspaces"] = {**workspaces, "name": f"{before}{name}"}
    if state.backend == "cloud":  # a block of its own, whose states `remote` reads
        named_one = NamedCloudWorkspace(**settings.pop("workspaces"))
        CloudBackend(stack, workspaces=named_one, **settings)
    else:
        Backend(stack, state.backend, settings)


def local_state(
    stack: Stack,
    name: str,
    settings: Mapping[str, Any] = MappingProxyType({}),
    *,
    project: Path,
    outdir: Path,
) -> None:
    """Keeps the state of stack `name` in `project`, named by a relative path.

    The state stays in place if `outdir` moves.
    """
    folder = outdir.resolve() / _STACKS / name
    paths = {"path": "", **settings}
    paths["path"] += f"terraform.{name}.tfstate"
    there = {key: os.path.relpath(project.resolve() / path, folder) for key, path in paths.items()}
    Backend(stack, "local", there)


def referenced_ids(clusters: Mapping[str, object], field: str) -> dict[str, str]:
    """Returns the resource ids in a field of clusters: each id once, by the first cluster with it.

    >>> from types import SimpleNamespace as Cluster
    >>> referenced_ids({"a": Cluster(image_id="i"), "b": Cluster(image_id="i")}, "image_id")
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
