"""Identity of a node's machine in Azure, which reports of broken hardware need."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Machine:
    """A VM: its resource id, its unique id, and its physical host if known."""

    resource: str
    vm: str = ""
    host: str = ""

    @classmethod
    def parse(cls, text: str) -> Machine | None:
        """Parses what a node's own code records about its VM; None if there is no resource id.

        >>> Machine.parse("host=DSM01,vm=aa-7,resource=/subscriptions/s/x").host
        'DSM01'
        """
        facts = dict(pair.split("=", 1) for pair in text.split(",") if "=" in pair)
        resource = facts.get("resource", "")
        return cls(resource, facts.get("vm", ""), facts.get("host", "")) if resource else None

    @property
    def subscription(self) -> str:
        """The id of its subscription.

        >>> Machine("/subscriptions/s/resourceGroups/g").subscription
        's'
        """
        return self.resource.split("/")[2] if self.resource.startswith("/subscriptions/") else ""
