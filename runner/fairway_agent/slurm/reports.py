"""What is asked of the login host of a Slurm cluster, and what it tells. Both ends of the
connection use these types. Standard library only."""

from __future__ import annotations

from dataclasses import dataclass

from fairway_agent.json_record import JsonRecord


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
    """Whether the partition is up (`available`), the jobs that Slurm holds, its `version`; of the
    login host its `time`, the bytes that are `free` in the shared folder, and what is wrong there
    (`fault`)."""

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
