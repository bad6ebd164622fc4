"""Which machine of Azure's a node is, as those must know who report it as broken."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Machine:
    """A VM: its resource id, its unique id, and the physical host that it is on, where known."""

    resource: str
    vm: str = ""
    host: str = ""

    @property
    def subscription(self) -> str:
        """The subscription that it is in.

        >>> Machine("/subscriptions/s/resourceGroups/g").subscription
        's'
        """
        return self.resource.split("/")[2] if self.resource.startswith("/subscriptions/") else ""
