"""Requests to the main host of a cluster about its runs and nodes, and its answers."""

from __future__ import annotations

from dataclasses import dataclass

from fairway_agent.records import JsonRecord


@dataclass(frozen=True, slots=True)
class SubmitRequest(JsonRecord):
    """The submission of a run, with the snapshot `code`, and what its jobs ask of the `partition`:
    `vm_size` and `gpus` are what the target says of a node, `nice`, `account` and `qos` what
    sbatch takes."""

    CALLED = "the request"

    run: str
    submission: int
    code: str = ""
    partition: str = ""
    vm_size: str = ""
    gpus: int = 0
    nice: int = 0
    account: str = ""
    qos: str = ""


@dataclass(frozen=True, slots=True)
class NodesRequest(JsonRecord):
    """The nodes of this partition, once the `action` is done to the `node`; with `health` also what
    the shared folder and Slurm are like."""

    CALLED = "the request"

    partition: str
    health: bool = False
    action: str = ""
    node: str = ""


@dataclass(frozen=True, slots=True)
class NodeReport(JsonRecord):
    """A node as sinfo lists it; what runs there, and what the scheduler has noted of it
    (`comment`)."""

    CALLED = "a node"

    name: str
    state: str
    address: str = ""
    cores: str = ""
    memory: str = ""
    features: str = ""
    gres: str = ""
    reason: str = ""
    run: str = ""
    comment: str = ""


@dataclass(frozen=True, slots=True)
class HeldJob(JsonRecord):
    """A job that Slurm does not start, and why."""

    CALLED = "a job"

    job: str
    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class Health(JsonRecord):
    """Health of the partition and the login host: the partition's state (`available`), the jobs
    that Slurm holds, its `version`; and the login host's `time`, the bytes that are `free` in the
    shared folder, and any problem there (`fault`)."""

    CALLED = "the health of the login host"

    available: str
    held: tuple[HeldJob, ...]
    free: int
    time: float
    version: str = ""
    fault: str = ""


@dataclass(frozen=True, slots=True)
class NodesReport(JsonRecord):
    """The nodes; the health where that was asked for."""

    CALLED = "the report of the nodes"

    nodes: tuple[NodeReport, ...]
    health: Health | None = None
