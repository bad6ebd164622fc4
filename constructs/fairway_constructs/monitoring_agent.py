"""The Azure Monitor agent on a machine, with the identity by which it signs in."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from fairway_constructs.azurerm.linux_virtual_machine_scale_set import Extension
from fairway_constructs.azurerm.virtual_machine_extension import VirtualMachineExtension
from fairway_constructs.scope import place_of

if TYPE_CHECKING:
    from fairway_constructs.cdk import Construct
    from fairway_constructs.cloud_init.proxy import MachineProxy

_NAME = "AzureMonitorLinuxAgent"
_PUBLISHER = "Microsoft.Azure.Monitor"
# The first of its line: Azure keeps the agent at the newest minor version.
_VERSION = "1.0"


def agent_on_scale_set(identity_id: str, proxy: MachineProxy | None = None) -> Extension:
    """The agent as a part of a scale set, so that a node has it from its first boot.

    >>> agent_on_scale_set("/subscriptions/…/nodes").type
    'AzureMonitorLinuxAgent'
    """
    return Extension(
        name=_NAME,
        publisher=_PUBLISHER,
        type=_NAME,
        type_handler_version=_VERSION,
        auto_upgrade_minor_version=True,
        automatic_upgrade_enabled=True,
        settings=_settings(identity_id, proxy),
    )


def agent_on_machine(
    scope: Construct,
    name: str,
    *,
    virtual_machine_id: str,
    identity_id: str,
) -> VirtualMachineExtension:
    """The agent on one VM.

    >>> agent_on_machine(stack, "data", virtual_machine_id=vm.id, identity_id=identity.id)
    ... # doctest: +SKIP
    """
    place = place_of(scope)
    return VirtualMachineExtension(
        scope,
        f"{name}-agent",
        name=_NAME,
        virtual_machine_id=virtual_machine_id,
        publisher=_PUBLISHER,
        type=_NAME,
        type_handler_version=_VERSION,
        auto_upgrade_minor_version=True,
        automatic_upgrade_enabled=True,
        settings=_settings(identity_id, place.proxy),
        tags=place.tags,
    )


def _settings(identity_id: str, proxy: MachineProxy | None) -> str:
    """By name: a machine may carry several identities.

    It reads no variables. Source: Azure documentation, Azure Monitor agent network configuration.

    Without spaces, as the provider reads it back: another form would be drift.
    """
    identity = {"identifier-name": "mi_res_id", "identifier-value": identity_id}
    settings: dict[str, object] = {"authentication": {"managedIdentity": identity}}
    if proxy is not None:
        settings["proxy"] = {"mode": "application", "address": proxy.http, "auth": "false"}
    return json.dumps(settings, separators=(",", ":"))
