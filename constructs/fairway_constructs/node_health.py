"""How Azure learns that a node is well: an extension asks the node itself, and no port is open."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from fairway_constructs.azurerm.linux_virtual_machine_scale_set import (
    AutomaticInstanceRepair,
    Extension,
)
from fairway_constructs.cloud_init.health import HEALTH_PORT
from fairway_core.autoscale import iso_duration

if TYPE_CHECKING:
    from fairway_core.environment import Repair

_NAME = "ApplicationHealthLinux"

# Three bad answers in a row, a minute apart, are no accident.
_EVERY_SECONDS = 60
_PROBES = 3

_ACTIONS = {"replace": "Replace", "reimage": "Reimage", "restart": "Restart"}


def health_on_scale_set() -> Extension:
    """The extension that asks `cloud_init/health.sh` on each node, over its loopback address.

    >>> health_on_scale_set().type
    'ApplicationHealthLinux'
    """
    return Extension(
        name=_NAME,
        publisher="Microsoft.ManagedServices",
        type=_NAME,
        type_handler_version="1.0",
        auto_upgrade_minor_version=True,
        automatic_upgrade_enabled=True,
        settings=json.dumps(
            {
                "protocol": "http",
                "port": HEALTH_PORT,
                "requestPath": "/",
                "intervalInSeconds": _EVERY_SECONDS,
                "numberOfProbes": _PROBES,
            },
            separators=(",", ":"),  # as the provider reads it back: another form would be drift
        ),
    )


def automatic_repair(repair: Repair) -> AutomaticInstanceRepair:
    """What Azure does with a node that stays unwell.

    >>> from fairway_core.environment import Repair
    >>> automatic_repair(Repair()).grace_period
    'PT30M'
    """
    return AutomaticInstanceRepair(
        enabled=True, action=_ACTIONS[repair.action], grace_period=iso_duration(repair.grace)
    )
