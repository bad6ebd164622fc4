"""What a diagram shows: boxes, boxes around boxes, and arrows; nothing of how it is drawn."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


class Kind(StrEnum):
    """What a box stands for, by which it gets its colour."""

    MACHINES = "machines"
    FILES = "files"
    SERVICE = "service"
    IDENTITY = "identity"
    NETWORK = "network"


@dataclass(eq=False)
class Node:
    """A box: `title` is its name in Azure, `lines` say what it is. Resources share one by identity,
    and roles on networks add lines to it."""

    id: str
    kind: Kind
    title: str
    lines: tuple[str, ...] = ()


@dataclass(frozen=True)
class Arrow:
    """Who reaches whom, from box to box, and by what."""

    source: str
    target: str
    label: str


@dataclass
class Group:
    """A network, with its subnets in `groups`, or a subnet: around what stands in it."""

    id: str
    title: str
    lines: tuple[str, ...] = ()
    nodes: list[Node] = field(default_factory=list)
    groups: list[Group] = field(default_factory=list)


@dataclass
class Picture:
    """A whole environment: what stands in networks, what beside them, and the arrows."""

    title: str
    groups: list[Group] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    arrows: list[Arrow] = field(default_factory=list)

    def all_nodes(self) -> Iterator[Node]:
        """Every box, those in groups first."""
        for network in self.groups:
            for group in (network, *network.groups):
                yield from group.nodes
        yield from self.nodes
