"""Backends for Terraform's state of a stack: a file beside cdktf.json, a blob, or others."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from fairway_constructs.cdk import (
    AzurermBackend,
    CloudBackend,
    GcsBackend,
    HttpBackend,
    LocalBackend,
    NamedCloudWorkspace,
    NamedRemoteWorkspace,
    RemoteBackend,
    S3Backend,
)
from fairway_core.environment import AzurermState, OtherState

if TYPE_CHECKING:
    from pathlib import Path

    from fairway_constructs.cdk import Stack
    from fairway_core.environment import LocalState

# Terraform runs in OUTDIR/stacks/STACK, and a stack that reads another's outputs runs in a
# folder beside it: one relative path is right for both.
_STACKS = "stacks"


def keep_state(
    stack: Stack,
    name: str,
    state: LocalState | AzurermState | OtherState,
    *,
    project: Path,
    outdir: Path,
) -> None:
    """Keeps the state of stack `name` where the environment says.

    Stacks that read its outputs find it by the same settings, which cdktf passes on.
    """
    if isinstance(state, AzurermState):
        AzurermBackend(
            stack,
            resource_group_name=state.resource_group,
            storage_account_name=state.storage_account,
            container_name=state.container,
            key=f"{name}.tfstate",
            # With the identity that runs Terraform: the account has no keys.
            use_azuread_auth=True,
        )
    elif isinstance(state, OtherState):
        _elsewhere(stack, name, state)
    else:
        local_state(stack, name, project=project, outdir=outdir)


def _elsewhere(stack: Stack, name: str, state: OtherState) -> None:
    """Passes the settings on, with a state of its own for the stack."""
    settings: dict[str, Any] = dict(state.settings)
    match state.backend:
        case "s3":
            key = f"{settings.pop('key', '')}{name}.tfstate"
            S3Backend(stack, key=key, **settings)
        case "gcs":
            GcsBackend(stack, prefix=f"{settings.pop('prefix', '')}{name}", **settings)
        case "http":
            for each in ("address", "lock_address", "unlock_address"):
                if each in settings:
                    settings[each] = f"{settings[each].rstrip('/')}/{name}"
            HttpBackend(stack, **settings)
        case "remote":
            workspace = NamedRemoteWorkspace(f"{settings.pop('prefix', '')}{name}")
            RemoteBackend(stack, workspaces=workspace, **settings)
        case "cloud":
            named = f"{settings.pop('prefix', '')}{name}"
            workspaces = NamedCloudWorkspace(named, settings.pop("project", None))
            CloudBackend(stack, workspaces=workspaces, **settings)


def local_state(stack: Stack, name: str, *, project: Path, outdir: Path) -> None:
    """Keeps the state of stack `name` in `project`, by a path that holds no absolute part.

    The state stays where it is when `outdir` moves.
    """
    folder = outdir.resolve() / _STACKS / name
    file = os.path.relpath(project.resolve() / f"terraform.{name}.tfstate", folder)
    LocalBackend(stack, path=file)
