"""The way to a host, as OpenSSH's settings: straight, through jump hosts, through a Bastion."""

from __future__ import annotations

import ipaddress
import re
import shlex
import shutil
import sys
from typing import TYPE_CHECKING

from fairway_core.findings import UserError
from fairway_runner.engines.remote import bastion

if TYPE_CHECKING:
    from pathlib import Path

    from fairway_core.reach import Reach

# Seconds until ssh gives a new connection up: az starts, asks Azure, and then connects.
_BASTION_TIMEOUT = 150

# What only their own networks lead to: RFC 1918, and RFC 6598's for providers.
_PRIVATE = [
    ipaddress.ip_network(text)
    for text in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10")
]

_FAULT = re.compile(r"^error: (.+) \[([a-z-]+)\]\r?\n  (.+?)\r?$", re.MULTILINE)


def settings(reach: Reach | None, host: str) -> dict[str, str]:
    """The settings of ssh, by name, that lead to `host`."""
    if reach is None:
        return {}
    if reach.jump is not None:
        return {"ProxyJump": ",".join(reach.jump)}
    assert reach.bastion is not None, "one of the two ways"
    name = reach.bastion.rpartition("/")[2]
    return {
        "ProxyCommand": _proxy_command(reach.bastion),
        # Environments have the same addresses, and each of its hosts is made anew with a new key.
        "HostKeyAlias": f"{host}.{name}",
        "StrictHostKeyChecking": "accept-new",
        "ConnectTimeout": str(_BASTION_TIMEOUT),
    }


def options(reach: Reach | None, host: str) -> list[str]:
    """The same as words of a command line."""
    found = settings(reach, host)
    return [word for name, value in found.items() for word in ("-o", f"{name}={value}")]


def environment(reach: Reach | None, faults: Path) -> dict[str, str]:
    """The variables of a connection whose faults on the way are wanted in a file."""
    return {bastion.FAULTS: str(faults)} if reach is not None and reach.bastion else {}


def require_tools(reach: Reach | None) -> None:
    """UserError where this machine lacks what the way takes."""
    if reach is not None and reach.bastion is not None and shutil.which("az") is None:
        fault = bastion.NO_AZ
        raise UserError.of(fault.id, fault.message, fault.hint, exit_code=4)


def fault_in(said: str) -> bastion.Fault | None:
    """What the program between ssh and az has said is wrong, in all that ssh printed."""
    match = _FAULT.search(said)
    return bastion.Fault(match[2], match[1], match[3]) if match else None


def hint_for(host: str, reach: Reach | None) -> str:
    """What to do about a host that does not answer; `{ssh}` stands for how to try by hand."""
    if reach is None and is_private(host):
        return (
            f"{host} is a private address, reached only from its own network: is your VPN up?\n"
            "for a Bastion or jump hosts: set `access.bastion` or `access.reach` in the\n"
            "environment, deploy it, then: fairway targets sync (docs/private-cluster.md)\n"
            "try: {ssh}"
        )
    if reach is not None and reach.jump is not None:
        return "are it and the jump hosts up, and do they admit you? try: {ssh}"
    return "is it up, and the network or tunnel to it? try: {ssh}"


def _proxy_command(bastion_id: str) -> str:
    # -I and -S: no variable and no package of the user changes what it does, or slows it down.
    words = shlex.join([sys.executable, "-I", "-S", bastion.__file__, bastion_id])
    return f"{words.replace('%', '%%')} %h %p"


def is_private(host: str) -> bool:
    """Whether a host is named by an address that its own network alone knows."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    return any(address in network for network in _PRIVATE)
