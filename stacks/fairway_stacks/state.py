"""Backends for Terraform's state of a stack: a file beside cdktf.json, a blob, or others."""

from __future__ import annotations

import os
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from fairway_constructs.cdk import Backend, CloudBackend, NamedCloudWorkspace
from fairway_core.catalog.tables import table
from fairway_core.environment import AzurermState

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from fairway_constructs.cdk import Stack
    from fairway_core.environment import LocalState, OtherState

# Terraform runs in OUTDIR/stacks/STACK, and a stack that reads another's outputs runs in a
# folder beside it: one relative path is right for both.
_STACKS = "stacks"
# The placeholder for the stack's name in an address. Without it the name comes last; GitLab's lock
# of a state is below the name.
_STACK = "{stack}"


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
