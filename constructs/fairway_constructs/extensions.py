"""Extensions, programs that Azure installs on machines, as arguments for a VM or a scale set.

An extension that is part of a scale set is on each node from its first boot.
"""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any

from fairway_constructs.azurerm.virtual_machine_extension import VirtualMachineExtension
from fairway_constructs.cloud_init import HEALTH_PORT
from fairway_constructs.cloud_init.people import accounts_extension
from fairway_constructs.scope import azure_scope_of

if TYPE_CHECKING:
    from fairway_constructs.cdk import Construct
    from fairway_constructs.cloud_init.mounts import MachineProxy
    from fairway_constructs.cloud_init.people import Accounts

# Three bad answers in a row, a minute apart, are not a coincidence.
_EVERY_SECONDS = 60
_PROBES = 3


def add_to_vm(
    scope: Construct, name: str, extension: dict[str, Any], *, virtual_machine_id: str
) -> VirtualMachineExtension:
    """Adds the extension to one VM."""
    tags = azure_scope_of(scope).tags
    return VirtualMachineExtension(
        scope, name, virtual_machine_id=virtual_machine_id, tags=tags, **extension
    )


def _extension(publisher: str, type_: str, settings: object = None, **more: Any) -> dict[str, Any]:
    """Returns an extension that its publisher keeps at the newest 1.x."""
    # Without spaces, as the provider reads it back: any other form would be drift.
    text = {"settings": json.dumps(settings, separators=(",", ":"))} if settings else {}
    facts = {"name": type_, "publisher": publisher, "type": type_, "type_handler_version": "1.0"}
    return {**facts, "auto_upgrade_minor_version": True, **text, **more}


# Source: Azure documentation, "Sign in to a Linux virtual machine in Azure by using Microsoft Entra
# ID and OpenSSH".
LOGIN = _extension("Microsoft.Azure.ActiveDirectory", "AADSSHLoginForLinux")


def health() -> dict[str, Any]:
    """Returns the extension that polls `cloud_init/health.sh` over each node's loopback address."""
    settings = {
        "protocol": "http",
        "port": HEALTH_PORT,
        "requestPath": "/",
        "intervalInSeconds": _EVERY_SECONDS,
        "numberOfProbes": _PROBES,
    }
    publisher, type_ = "Microsoft.ManagedServices", "ApplicationHealthLinux"
    return _extension(publisher, type_, settings, automatic_upgrade_enabled=True)


def monitoring_agent(identity_id: str, proxy: MachineProxy | None) -> dict[str, Any]:
    """Returns the Azure Monitor agent, with its identity, as a machine may have several.

    It reads no variables. Source: Azure documentation, Azure Monitor agent network configuration.
    """
    identity = {"identifier-name": "mi_res_id", "identifier-value": identity_id}
    settings: dict[str, object] = {"authentication": {"managedIdentity": identity}}
    if proxy is not None:
        settings["proxy"] = {"mode": "application", "address": proxy.http, "auth": "false"}
    publisher, type_ = "Microsoft.Azure.Monitor", "AzureMonitorLinuxAgent"
    return _extension(publisher, type_, settings, automatic_upgrade_enabled=True)


def equip(
    scope: Construct,
    name: str,
    *,
    virtual_machine_id: str,
    accounts: Accounts | None = None,
    agent_identity_id: str | None = None,
) -> None:
    """Adds the users' accounts, and the Azure Monitor agent with this identity, to one VM."""
    on_it = partial(add_to_vm, scope, virtual_machine_id=virtual_machine_id)
    if accounts is not None:
        on_it(f"{name}-people", accounts_extension(accounts))
    if agent_identity_id:
        on_it(f"{name}-agent", monitoring_agent(agent_identity_id, azure_scope_of(scope).proxy))
