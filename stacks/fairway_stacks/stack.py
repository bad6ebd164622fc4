"""What every stack starts with: its name, its state, the provider and a resource group."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from fairway_constructs.azurerm.provider import (
    AzurermProvider,
    Features,
    FeaturesKeyVault,
    FeaturesNetapp,
    FeaturesStorage,
    FeaturesTemplateDeployment,
    FeaturesVirtualMachineScaleSet,
)
from fairway_constructs.cdk import App, Stack
from fairway_constructs.cloud_init.proxy import machine_proxy
from fairway_constructs.placement import place_in_group
from fairway_stacks.state import keep_state

if TYPE_CHECKING:
    from pathlib import Path

    from fairway_constructs.placement import Placement
    from fairway_core.environment import Environment

# What the stacks of an environment are called after, in the order in which they are made.
ROLES = ("network", "data", "compute")

_FEATURES = Features(
    # Containers are made through the management plane: the account's own is closed to us.
    storage=FeaturesStorage(data_plane_available=False),
    # What was deleted can be brought back until its time is over.
    key_vault=FeaturesKeyVault(purge_soft_delete_on_destroy=False),
    # Whether a volume may be destroyed is told by `protect`, as for all that holds data.
    netapp=FeaturesNetapp(prevent_volume_destruction=False),
    # A change of the model must never restart nodes in the middle of a job.
    virtual_machine_scale_set=FeaturesVirtualMachineScaleSet(
        roll_instances_when_required=False, reimage_on_manual_upgrade=False
    ),
)


@dataclass(frozen=True, kw_only=True)
class Project:
    """The CDK app, the folder of cdktf.json, and where Terraform's files are written."""

    app: App
    folder: Path
    outdir: Path


class EnvironmentStack(Stack):
    """A stack of one environment, named after it and its role: `demo-network`."""

    def __init__(self, project: Project, environment: Environment, role: str) -> None:
        name = f"{environment.name}-{role}"
        super().__init__(project.app, name)
        keep_state(self, name, environment.state, project=project.folder, outdir=project.outdir)
        # A Logic App that outlived its schedule would go on stopping nodes.
        add_provider(self, deletes_deployed=role == "compute")
        self.place: Placement = place_in_group(
            self,
            environment=environment.name,
            role=role,
            location=environment.location,
            zone=environment.zone_number,
            tags=tags(environment),
            existing=environment.resource_group.existing if environment.resource_group else None,
            proxy=machine_proxy(environment.network.proxy, environment.network.ranges),
        )


def add_provider(stack: Stack, *, deletes_deployed: bool = False) -> None:
    """The provider of a stack: it neither uses keys nor gets rid of what was deleted softly.

    With `deletes_deployed` what a template has deployed goes with its deployment. A key goes with
    its vault: Azure deletes no key through the management plane.
    """
    templates = FeaturesTemplateDeployment(delete_nested_items_during_deletion=deletes_deployed)
    features = replace(_FEATURES, template_deployment=templates)
    AzurermProvider(stack, features=features, storage_use_azuread=True)


def tags(environment: Environment) -> dict[str, str]:
    """The tags of every resource: the user's own, and by what it was made."""
    return {**environment.tags, "environment": environment.name, "managed-by": "fairway"}
