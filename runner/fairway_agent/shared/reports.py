"""Requests to the host about runs in the shared folder and about nodes, its answers, and files sent
in pieces."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import field
from typing import TYPE_CHECKING

from fairway_agent.quick import dataclass
from fairway_agent.records import JsonRecord
from fairway_agent.state_files import RunState, TaskState

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

MOST = 4 << 20  # bytes in one answer


@dataclass(frozen=True, slots=True)
class Piece(JsonRecord, called="a piece"):
    """Content of a file from the byte `offset` on, packed as text."""

    offset: int
    data: str


def pieces_of(
    files: Iterable[tuple[str, Path]], known: Mapping[str, int], budget: list[int]
) -> tuple[dict[str, Piece], bool]:
    """Returns the piece of each file beyond the bytes `known` of it, by name, as far as the budget
    of bytes goes, which this reduces; also returns True if there is more."""
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
class RunRequest(JsonRecord, called="the request"):
    """`done` names the tasks whose last state is known already, `logs` from which byte on logs are
    wanted, by the name of the task. With `samples` those of its nodes are wanted too, of each from
    the byte on that is known here, by its name."""

    done: tuple[str, ...] = ()
    logs: Mapping[str, int] = field(default_factory=dict)
    samples: Mapping[str, int] | None = None


@dataclass(frozen=True, slots=True)
class RunReport(JsonRecord, called="the report"):
    """State of a run, None before it was written; by name, the states of its setup and of its tasks
    that were not known to be done; new pieces of logs, and of samples by the names of nodes. `more`
    says that there are others. `damaged` names a file of the run that cannot be read: nothing else
    is told then."""

    state: RunState | None
    tasks: Mapping[str, TaskState] = field(default_factory=dict)
    logs: Mapping[str, Piece] = field(default_factory=dict)
    samples: Mapping[str, Piece] = field(default_factory=dict)
    more: bool = False
    damaged: str | None = None


@dataclass(frozen=True, slots=True)
class StatesRequest(JsonRecord, called="the request"):
    """Request for the states of runs, by their ids."""

    runs: Mapping[str, RunRequest]


@dataclass(frozen=True, slots=True)
class StatesReport(JsonRecord, called="the states of runs"):
    """By id what is told of each run, None for one that has no folder. `silent` says who did not
    answer the host: part of the states may be old then."""

    runs: Mapping[str, RunReport | None]
    silent: str = ""


@dataclass(frozen=True, slots=True)
class ReceiveRequest(JsonRecord, called="the request"):
    """The folder of this run is to be made, from the payload; `code` names its snapshot."""

    run: str
    code: str


@dataclass(frozen=True, slots=True)
class ReceiveReport(JsonRecord, called="the answer to a submission"):
    """The place in which the run's snapshot is to be put, and whether the snapshot is there."""

    draft: str
    has_code: bool


@dataclass(frozen=True, slots=True)
class SubmitRequest(JsonRecord, called="the request"):
    """The submission of a run, with the snapshot `code`.

    Slurm's jobs ask for nodes of the `partition`: `vm_size` and `gpus` are what the target says of
    one, `nice`, `account` and `qos` what sbatch takes. A pod of Kubernetes takes these `resources`
    of a node; `key` is the private one by which the pods of a task reach each other, "" where each
    task has one, and `topology` the path of the file that NCCL reads there, "" if there is none.
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
class SubmitReport(JsonRecord, called="the answer to a submission"):
    """The ids of the submission's jobs."""

    jobs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CancelRequest(JsonRecord, called="the request"):
    """A run's submission, or its `task` of that name alone, that is to end; at once with `kill`.
    `jobs` are those that the scheduler has of it, as known to who asks."""

    run: str
    submission: int
    kill: bool = False
    task: str = ""
    jobs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RunsRequest(JsonRecord, called="the request"):
    """The runs of `target` that are not among the `known`; or the run to `remove`."""

    target: str = ""
    known: tuple[str, ...] = ()
    remove: str | None = None


@dataclass(frozen=True, slots=True)
class RunsReport(JsonRecord, called="the list of runs"):
    """By id the texts of a run's files by name, still to be checked; and its last submission."""

    runs: Mapping[str, object]
    submissions: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class NodesRequest(JsonRecord, called="the request"):
    """The nodes of a target, once the `action` is done to the `node`; with `health` also what else
    it needs. `group` is the name of a plain cluster, or a partition of Slurm's.

    `queue` is the folder of a plain cluster's people, or a queue of Kueue's. Kubernetes' nodes have
    the labels of `selector`, and `rdma` is the name of their adapters; with `health` it is also
    asked for the `claims`, and which of the `rights` the head's account does not have: each a verb
    and a resource, and whether that is in all namespaces. `run` asks for the pods of a run instead.
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
class NodeReport(JsonRecord, called="a node"):
    """A node, the `reason` why it is not fit, the runs that have it, and what it offers these;
    `machine` is the VM that it is, by what its scheduler has noted. `pod` names a run's pod there.

    Of a plain cluster's: for how many seconds it has been silent (`age`), and whether that is short
    enough to count on it (`fresh`). `own` says that it is the main host, and `unreachable` that it
    takes no connection.
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
class HeldJob(JsonRecord, called="a job"):
    """A job that Slurm does not start, and why."""

    job: str
    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class Health(JsonRecord, called="the health of the target"):
    """Health of a target: the bytes that are `free` in its shared folder, and any problem there
    (`fault`); and the `time` at the host. Of a plain cluster, whether its main host has ssh; of a
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
class PodReport(JsonRecord, called="a pod"):
    """A pod: the part of its run, and its number in that."""

    name: str
    part: str
    index: int


@dataclass(frozen=True, slots=True)
class NodesReport(JsonRecord, called="the report of the nodes"):
    """The nodes; the health where that was asked for, and so the running pods of a run's tasks."""

    nodes: tuple[NodeReport, ...] = ()
    health: Health | None = None
    pods: tuple[PodReport, ...] = ()


@dataclass(frozen=True, slots=True)
class InputsRequest(JsonRecord, called="the request"):
    """Folders of other runs that this run reads: which are missing, or `adopt` those brought."""

    run: str
    paths: tuple[str, ...]
    adopt: bool = False


@dataclass(frozen=True, slots=True)
class InputsReport(JsonRecord, called="the answer about inputs"):
    """The missing ones, each with the folder in which it is to be put."""

    missing: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Done(JsonRecord, called="the answer"):
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
"""Kinds of requests to a host, each by the name of the function that answers it."""
