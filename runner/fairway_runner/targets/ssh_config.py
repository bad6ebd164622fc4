"""Targets as `Host` blocks of ~/.ssh/config, for programs that connect by themselves."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from fairway_core.findings import UserError
from fairway_runner.engines.remote import bastion

if TYPE_CHECKING:
    from fairway_core.target import Target

_ALIVE = {"ServerAliveInterval": "15"}


def host_block(target: Target) -> str:
    """The block whose name is the target's; UserError for a target that ssh does not lead to.

    >>> print(host_block(Target.model_validate(  # doctest: +SKIP
    ...     {"name": "pair", "engine": "ssh", "nodes": {"min": 2, "max": 2},
    ...      "ssh": {"host": "10.40.0.4", "user": "azureuser", "shared": "/data/fairway"}})))
    Host pair
        HostName 10.40.0.4
        User azureuser
        ServerAliveInterval 15
    """
    access = target.access
    if access is None:
        message = f"`{target.name}` is not reached by ssh: its engine is `{target.engine}`"
        raise UserError.of("not-supported", message, "see which are: fairway targets list")
    if not access.host:
        message = f"`{target.name}` has no address to connect to"
        raise UserError.of("no-address", message, "deploy it again, then: fairway targets sync")
    if not re.fullmatch(r"[\w.-]+", target.name):
        message = f"`{target.name}` cannot be a host name"
        raise UserError.of("bad-name", message, "give it a name of letters, digits and dashes")
    user = {"User": access.user} if access.user else {}
    facts = {
        "HostName": access.host,
        **user,
        **bastion.settings(target.reach, access.host),
        **_ALIVE,
    }
    return "\n".join([f"Host {target.name}", *(f"    {key} {facts[key]}" for key in facts)])
