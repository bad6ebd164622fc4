"""The proxy of machines as their programs know it: variables, and what reads none."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from ipaddress import IPv4Network

    from fairway_core.environment import Proxy

# This machine, and what Azure answers to it alone: the metadata service, and the platform's
# (DNS, DHCP, health). Source: Azure documentation, "Azure Instance Metadata Service" (proxies are
# not supported) and "What is IP address 168.63.129.16".
_ALWAYS_DIRECT = ("localhost", "127.0.0.1", "::1", "169.254.169.254", "168.63.129.16")


@dataclass(frozen=True, kw_only=True)
class MachineProxy:
    """Where a machine finds the internet, and what it reaches directly; names may be references.

    >>> MachineProxy(http="http://p:80", https="http://p:80", direct=("10.0.0.0/16",)).variables[
    ...     "no_proxy"]
    '10.0.0.0/16'
    """

    http: str
    https: str
    direct: tuple[str, ...]

    @property
    def variables(self) -> dict[str, str]:
        """What programs read; some read only upper case, and others lower case."""
        known = {
            "http_proxy": self.http,
            "https_proxy": self.https,
            "no_proxy": ",".join(self.direct),
        }
        return known | {name.upper(): text for name, text in known.items()}

    def past(self, hosts: Iterable[str]) -> MachineProxy:
        """The same, with these names reached directly too."""
        return replace(self, direct=tuple(dict.fromkeys([*self.direct, *hosts])))


def machine_proxy(spec: Proxy | None, ranges: Iterable[IPv4Network]) -> MachineProxy | None:
    """The proxy of an environment's machines, which stand in these ranges; None without one."""
    if spec is None:
        return None
    direct = [*_ALWAYS_DIRECT, *map(str, ranges), *spec.no_proxy]
    return MachineProxy(
        http=spec.http, https=spec.https or spec.http, direct=tuple(dict.fromkeys(direct))
    )
