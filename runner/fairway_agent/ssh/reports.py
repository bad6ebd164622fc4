"""Requests to the main host of a plain cluster, and its answers. Both ends of the connection use
these types. Standard library only."""

from __future__ import annotations

from dataclasses import dataclass

from fairway_agent.records import JsonRecord


@dataclass(frozen=True, slots=True)
class StartRequest(JsonRecord):
    """The submission of a run that is to start, with the snapshot `code`."""

    CALLED = "the request"

    run: str
    submission: int
    code: str = ""


@dataclass(frozen=True, slots=True)
class NodesRequest(JsonRecord):
    """The nodes of this cluster; with `health` each is connected to. `queue` is the folder of all
    people, where there is one."""

    CALLED = "the request"

    cluster: str
    health: bool = False
    queue: str = ""


@dataclass(frozen=True, slots=True)
class NodeReport(JsonRecord):
    """A node as it announced itself: for how many seconds it has been silent (`age`), and whether
    that is short enough to count on it (`fresh`); what it lacks (`trouble`), and which `run` has
    it. `own` says that it is the main host, `unreachable` that it takes no connection."""

    CALLED = "a node"

    name: str
    address: str
    fresh: bool
    age: float
    own: bool = False
    trouble: str = ""
    run: str = ""
    unreachable: bool = False


@dataclass(frozen=True, slots=True)
class NodesReport(JsonRecord):
    """The nodes; of the main host its `time`, its `python`, the bytes that are `free` in the shared
    folder, and what is wrong there (`fault`)."""

    CALLED = "the report of the nodes"

    nodes: tuple[NodeReport, ...]
    time: float
    python: str
    free: int
    has_ssh: bool
    fault: str = ""
