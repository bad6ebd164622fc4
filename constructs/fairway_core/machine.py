"""Which machine of Azure's a node is, as those must know who report it as broken."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Machine:
    """A VM: its resource id, its unique id, and the physical host that it is on, where known."""

    resource: str
    vm: str = ""
    host: str = ""

    @classmethod
    def parse(cls, text: str) -> Machine | None:
        """Reads what a node's own code notes of its VM; None where that is nothing.

        >>> Machine.parse("host=DSM01,vm=aa-7,resource=/subscriptions/s/x").host
        'DSM01'
        """
        facts = dict(pair.split("=", 1) for pair in text.split(",") if "=" in pair)
        resource = facts.get("resource", "")
        return cls(resource, facts.get("vm", ""), facts.get("host", "")) if resource else None

    @property
    def subscription(self) -> str:
        """The subscription that it is in.

        >>> Machine("/subscriptions/s/resourceGroups/g").subscription
        's'
        """
        return self.resource.split("/")[2] if self.resource.startswith("/subscriptions/") else ""
