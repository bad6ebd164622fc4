"""Requests to the host about runs in the shared folder and nodes, answers, and pieces of files."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import field
from pathlib import Path

from fairway_agent.quick import dataclass
from fairway_agent.records import JsonRecord
from fairway_agent.state_files import RunState, TaskState

MOST = 4 << 20  # bytes per answer


@dataclass(frozen=True, slots=True)
class Piece(JsonRecord, label="a piece"):
    """Content of a file from the byte `offset` on, encoded as text."""

    offset: int
    data: str


def pieces_of(
    files: Iterable[tuple[str, Path]], known: Mapping[str, int], budget: list[int]
) -> tuple[dict[str, Piece], bool]:
    """Returns the piece of each file after its `known` bytes, by name, within the budget of
    bytes goes, which this reduces; also returns True if there is more."""
    more = False
    found: dict[str, Piece] = {}
    for name, file in files:
        if budget[0] <= 0:
            return found, True
        offset = known.get(name, 0)
        with suppress(FileNotFoundError), file.open("rb") as opened:
            opened.seek(offset)
            if data := opened.read(budget[0]):
                more = more or bool(opened.read(1))
                packed = base64.b64encode(zlib.compress(data, 1)).decode("ascii")
                found[name] = Piece(offset, packed)
                budget[0] -= len(data)
    return found, more


@dataclass(frozen=True, slots=True)
class RunRequest(JsonRecord, label="the request"):
    """Request for a run. `done` names the tasks whose final state the caller knows; `logs` has the
    byte from which each task's log is wanted, and `samples`, if set, that of its nodes' samples.
    `created` tells the run from another of the same id, which is not reported."""

    done: tuple[str, ...] = ()
    logs: Mapping[str, int] = field(default_factory=dict)
    samples: Mapping[str, int] | None = None
    created: float | None = None


@dataclass(frozen=True, slots=True)
class RunReport(JsonRecord, label="the report"):
    """State of a run, None before it is written; by name, the states of its setup and of its tasks
    that were not known to be done; new pieces of logs, and of samples by node. `more` says that
    there are others. `damaged` has the ID, message and hint of the error if a file of the run
    is unreadable: the rest is empty then."""

    state: RunState | None
    tasks: Mapping[str, TaskState] = field(default_factory=dict)
    logs: Mapping[str, Piece] = field(default_factory=dict)
    samples: Mapping[str, Piece] = field(default_factory=dict)
    more: bool = False
    damaged: tuple[str, str, str] | None = None


@dataclass(frozen=True, slots=True)
class StatesRequest(JsonRecord, label="the request"):
    """Request for the states of runs, by their ids."""

    runs: Mapping[str, RunRequest]


@dataclass(frozen=True, slots=True)
class StatesReport(JsonRecord, label="the states of runs"):
    """Report on each run by its id, None for one without a folder. `silent` says who did not answer
    the host: some of the states may be outdated then."""

    runs: Mapping[str, RunReport | None]
    silent: str = ""


@dataclass(frozen=True, slots=True)
class ReceiveRequest(JsonRecord, label="the request"):
    """Request to create the folder of this run from the payload; `code` names its snapshot."""

    run: str
    code: str


@dataclass(frozen=True, slots=True)
class ReceiveReport(JsonRecord, label="the answer to a submission"):
    """Path at which to put the run's snapshot, and True if the snapshot exists already."""

    draft: str
    has_code: bool


@dataclass(frozen=True, slots=True)
class SubmitRequest(JsonRecord, label="the request"):
    """The submission of a run, with the snapshot `code`.

    Slurm's jobs ask for nodes of the `partition`: `vm_size` and `gpus` describe a node of the
    target; `nice`, `account` and `qos` are sbatch's. A pod of Kubernetes takes these `resources` of
    a node; `key` is the private key with which the pods of a task reach each other, "" if each task
    has its own, and `topology` the path of the file that NCCL reads there, "" for none.
    """

    run: str
    submission: int
    code: str = ""
    partition: str = ""
    vm_size: str = ""
    gpus: int = 0
    nice: int = 0
    account: str = ""
    qos: str = ""
    resources: Mapping[str, str] = field(default_factory=dict)
    key: str = ""
    topology: str = ""


@dataclass(frozen=True, slots=True)
class SubmitReport(JsonRecord, label="the answer to a submission"):
    """Ids of the submission's jobs."""

    jobs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CancelRequest(JsonRecord, label="the request"):
    """Request to end a run's submission, or only its `task` of that name; immediately with `kill`.
    `created` tells the run from another of the same id, which stays as it is, and `marks` the jobs
    of a run whose folder is gone: their ids at the scheduler, or else the volumes that they use."""

    run: str
    submission: int
    kill: bool = False
    task: str = ""
    marks: tuple[str, ...] = ()
    created: float | None = None


@dataclass(frozen=True, slots=True)
class RunsRequest(JsonRecord, label="the request"):
    """Request for the runs of `target` other than the `known` ones, or to `remove` a run, unless
    one of the same id was `created` at another time."""

    target: str = ""
    known: tuple[str, ...] = ()
    remove: str | None = None
    created: float | None = None


@dataclass(frozen=True, slots=True)
class RunsReport(JsonRecord, label="the list of runs"):
    """By run id, the texts of the run's files by name, still unchecked, and its last submission."""

    runs: Mapping[str, object]
    submissions: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class NodesRequest(JsonRecord, label="the request"):
    """Request for the nodes of a target, after the `action` on the `node`; with `health` also for
    the rest of the target. `group` is the name of a plain cluster, or a partition of Slurm's.

    `queue` is the folder of a plain cluster's users, or a queue of Kueue's. Kubernetes' nodes have
    the labels of `selector`, and `rdma` is the name of their adapters; `health` also covers the
    `claims`, and which of the `rights` the head's account lacks: each is a verb, a resource, and
    True for all namespaces. `run` asks for the pods of a run instead.
    """

    group: str = ""
    health: bool = False
    queue: str = ""
    action: str = ""
    node: str = ""
    selector: Mapping[str, str] = field(default_factory=dict)
    rdma: str = ""
    claims: tuple[str, ...] = ()
    rights: Mapping[str, bool] = field(default_factory=dict)
    run: str = ""


@dataclass(frozen=True, slots=True)
class NodeReport(JsonRecord, label="a node"):
    """A node, the `reason` why it is unfit, the runs that use it, and what it offers them;
    `machine` is its VM, as its scheduler has noted it. `pod` names a run's pod there.

    On a plain cluster: for how many seconds it has been silent (`age`), and True if that is short
    enough to rely on it (`fresh`). `own` says that it is the main host, and `unreachable` that it
    accepts no connection.
    """

    name: str
    state: str = ""
    address: str = ""
    reason: str = ""
    run: str = ""
    cores: str = ""
    gpus: str = ""
    adapters: str = ""
    features: str = ""
    machine: str = ""
    pod: str = ""
    age: float = 0.0
    fresh: bool = True
    own: bool = False
    unreachable: bool = False


@dataclass(frozen=True, slots=True)
class HeldJob(JsonRecord, label="a job"):
    """A job that Slurm holds, and why."""

    job: str
    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class Health(JsonRecord, label="the health of the target"):
    """Health of a target: the bytes that are `free` in its shared folder, and any problem there
    (`fault`); and the `time` at the host. Of a plain cluster, True if its main host has ssh; of a
    partition, its state (`available`) and the jobs that Slurm holds; of a namespace, any problem of
    each claim and of the queue, and the rights that the head's account `lacks`."""

    free: int
    time: float
    fault: str = ""
    has_ssh: bool = True
    available: str = ""
    held: tuple[HeldJob, ...] = ()
    claims: Mapping[str, str] = field(default_factory=dict)
    queue: str = ""
    lacks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PodReport(JsonRecord, label="a pod"):
    """A pod: its run's part, and its number in that."""

    name: str
    part: str
    index: int


@dataclass(frozen=True, slots=True)
class NodesReport(JsonRecord, label="the report of the nodes"):
    """The nodes, and if requested the target's health and the running pods of a run's tasks."""

    nodes: tuple[NodeReport, ...] = ()
    health: Health | None = None
    pods: tuple[PodReport, ...] = ()


@dataclass(frozen=True, slots=True)
class InputsRequest(JsonRecord, label="the request"):
    """Folders of other runs that this one reads: which are missing, or `adopt` uploaded ones."""

    run: str
    paths: tuple[str, ...]
    adopt: bool = False


@dataclass(frozen=True, slots=True)
class InputsReport(JsonRecord, label="the answer about inputs"):
    """The missing folders, each with the path at which to put it."""

    missing: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Done(JsonRecord, label="the answer"):
    """Answer to a request that was carried out and has no result."""


REQUESTS: dict[str, type[JsonRecord]] = {
    "receive": ReceiveRequest,
    "inputs": InputsRequest,
    "submit": SubmitRequest,
    "states": StatesRequest,
    "cancel": CancelRequest,
    "nodes": NodesRequest,
    "runs": RunsRequest,
    "remove": RunsRequest,
}
"""Types of requests to a host, by the name of the function that answers each."""
