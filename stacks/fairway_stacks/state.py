"""Where Terraform keeps the state of a stack: a file beside cdktf.json, or a blob."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from fairway_constructs.cdk import AzurermBackend, LocalBackend
from fairway_core.environment import AzurermState

if TYPE_CHECKING:
    from pathlib import Path

    from fairway_constructs.cdk import Stack
    from fairway_core.environment import LocalState

# Terraform runs in OUTDIR/stacks/STACK, and a stack that reads another's outputs runs in a
# folder beside it: one relative path is right for both.
_STACKS = "stacks"


def keep_state(
    stack: Stack, name: str, state: LocalState | AzurermState, *, project: Path, outdir: Path
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
    else:
        local_state(stack, name, project=project, outdir=outdir)


def local_state(stack: Stack, name: str, *, project: Path, outdir: Path) -> None:
    """Keeps the state of stack `name` in `project`, by a path that holds no absolute part.

    The state stays where it is when `outdir` moves.
    """
    folder = outdir.resolve() / _STACKS / name
    file = os.path.relpath(project.resolve() / f"terraform.{name}.tfstate", folder)
    LocalBackend(stack, path=file)
