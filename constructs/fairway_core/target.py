"""A target: what a cluster offers to the runner.

The compute stack publishes a list of these as its output `targets`; the runner reads
them. It is the one place where infrastructure and runner meet.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from fairway_core.documents import Model

Engine = Literal["local", "ssh", "slurm", "batch"]


class NodeRange(Model):
    """How many nodes a target may have: a fixed one has `min` equal to `max`."""

    min: int = Field(ge=0)
    max: int = Field(ge=1)


class StorageAccount(Model):
    """The account whose containers a job reads and writes."""

    account_url: str
    containers: tuple[str, ...]


class SshAccess(Model):
    """How a plain scale set or a VM is reached; `shared` is a folder that all its nodes see."""

    host: str
    user: str
    shared: str


class Target(Model):
    """A place that jobs run on.

    >>> Target.local().engine
    'local'
    """

    version: Literal[1] = 1
    name: str
    environment: str = ""
    engine: Engine
    vm_size: str = ""
    nodes: NodeRange
    spot: bool = False
    mounts: dict[str, str] = Field(default_factory=dict)
    storage: StorageAccount | None = None
    ssh: SshAccess | None = None

    @classmethod
    def local(cls) -> Target:
        """This machine, which always exists and counts as many nodes as a job asks for."""
        return cls(name="local", engine="local", nodes=NodeRange(min=1, max=10_000))
