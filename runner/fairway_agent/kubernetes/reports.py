"""Requests to the main host of a cluster about its runs and nodes, and its answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from fairway_agent.records import JsonRecord


@dataclass(frozen=True, slots=True)
class SubmitRequest(JsonRecord):
    """The submission of a run, with the snapshot `code`; what each of its pods takes of a node by
    the names that Kubernetes has for it; the private `key` by which the pods of a task reach
    each other, "" where each task has one; and the path of the `topology` file that NCCL reads
    there, "" if the cluster has none for these nodes."""

    CALLED = "the request"

    run: str
    submission: int
    code: str = ""
    resources: Mapping[str, str] = field(default_factory=dict)
    key: str = ""
    topology: str = ""


@dataclass(frozen=True, slots=True)
class NodesRequest(JsonRecord):
    """The nodes with the labels of `selector`, once the `action` is done to the `node`; `rdma` is
    the name of their adapters. With `health` also what the shared folder, the `claims` and the
    `queue` are like, and which of the `rights` the head's account does not have: each a verb and a
    resource, and whether that is in all namespaces."""

    CALLED = "the request"

    selector: Mapping[str, str] = field(default_factory=dict)
    rdma: str = ""
    health: bool = False
    claims: tuple[str, ...] = ()
    queue: str = ""
    rights: Mapping[str, bool] = field(default_factory=dict)
    action: str = ""
    node: str = ""


@dataclass(frozen=True, slots=True)
class NodeReport(JsonRecord):
    """A node, why it is not fit, what it offers to pods, the runs that have some there, and the
    name of one of these pods; and the VM that it is, as its health check notes it."""

    CALLED = "a node"

    name: str
    state: str
    address: str = ""
    reason: str = ""
    cores: str = ""
    gpus: str = ""
    adapters: str = ""
    run: str = ""
    pod: str = ""
    machine: str = ""


@dataclass(frozen=True, slots=True)
class Health(JsonRecord):
    """Health of the cluster: the problem of each claim, and of the queue, "" if there is none.

    About the head pod: its `time`, the bytes that are `free` in the shared folder, any problem
    there (`fault`), and, of the rights that were asked for, those that its account `lacks`.
    """

    CALLED = "the health of the cluster"

    claims: Mapping[str, str]
    free: int
    time: float
    queue: str = ""
    fault: str = ""
    lacks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NodesReport(JsonRecord):
    """The nodes; the health where that was asked for."""

    CALLED = "the report of the nodes"

    nodes: tuple[NodeReport, ...]
    health: Health | None = None


@dataclass(frozen=True, slots=True)
class PodsRequest(JsonRecord):
    """The pods of this run that run."""

    CALLED = "the request"

    run: str


@dataclass(frozen=True, slots=True)
class PodReport(JsonRecord):
    """A pod: the part of its run, and its number in that."""

    CALLED = "a pod"

    name: str
    part: str
    index: int


@dataclass(frozen=True, slots=True)
class PodsReport(JsonRecord):
    """Running pods of a run's tasks."""

    CALLED = "the list of pods"

    pods: tuple[PodReport, ...]
