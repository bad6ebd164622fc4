"""Pod settings of a target and of the job's container, and a task's share of its node."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING

from fairway_agent import job_facts, records
from fairway_agent.records import Fields, JsonRecord

if TYPE_CHECKING:
    from pathlib import Path

    from fairway_agent.resources import ResourceRequest


NODE_PROVISIONING = 1800.0
"""Seconds for the autoscaler to start a node before it tries another pool: nodes with many GPUs
start slowly."""
MOST_WAITS = 8
"""Maximum time for which a task's first pod holds its node while the autoscaler repeatedly fails to
start others, as a multiple of its patience."""


def patience(least: int, most: int) -> float:
    """Returns for how many seconds the first pod of a task waits for the others, on a target that
    has at `least` and at `most` these numbers of nodes: if they differ, as long as starting one may
    take.

    >>> patience(4, 4) / 60, patience(1, 4) / 60
    (15.0, 50.0)
    """
    if least == most:  # the first pods block nodes that another task may be waiting for
        return 900.0
    return NODE_PROVISIONING + 1200.0  # for its drivers, and to pull an image


@dataclass(frozen=True)
class PodFacts(JsonRecord, label="`kubernetes` of the target"):
    """Facts of a Kubernetes cluster for a target's pods: images and service accounts, for the
    head's own pods and for tasks; the taints of nodes that the former may use; claims, by the
    mounts that they provide; labels of the nodes that pods may use, and the taints of these nodes;
    the folder of these nodes for scratch, or the most that it takes of their system disk; the Kueue
    queue in which pods wait, and its priority classes, by the words that jobs use; and for how many
    seconds the first pod of a task waits for the others."""

    image: str
    head_image: str
    service_account: str
    head: str
    head_tolerations: tuple[str, ...] = ()
    volumes: Mapping[str, str] = field(default_factory=dict)
    selector: Mapping[str, str] = field(default_factory=dict)
    tolerations: tuple[str, ...] = ()
    scratch: str = ""
    queue: str | None = None
    priorities: Mapping[str, str] = field(default_factory=dict)
    patience: float | None = None


def pods_of(run: Path) -> PodFacts | None:
    """Reads the pod settings of the run in a folder; None if its target is not Kubernetes, or not
    known. Raises AgentError if the file is damaged."""

    def pods(facts: object) -> PodFacts | None:
        fields = Fields(facts, "the target")
        if fields.facts.get("kubernetes") is None:
            return None
        found = PodFacts.from_json(fields.facts["kubernetes"])
        if found.patience is None:
            nodes = Fields(fields.mapping("nodes"), "`nodes` of the target")
            least, most = (nodes.or_none(name, nodes.integer) or 0 for name in ("min", "max"))
            found = replace(found, patience=patience(least, most))
        return found

    return records.read(run / "target.json", pods)


@dataclass(frozen=True)
class Settings(PodFacts):
    """Settings of a run's pods: the facts of its target, with the job's own image, and its volumes
    at these `paths`. `resources` are those of an entire node, `most` is the largest number of
    nodes, 0 for no limit, `priority` the priority class in the queue, `shm_size` the size of
    /dev/shm, "" for all memory, and `topology` the path of NCCL's topology file, "" for none."""

    paths: Mapping[str, str] = field(default_factory=dict)
    resources: Mapping[str, str] = field(default_factory=dict)
    most: int = 0
    priority: str = ""
    shm_size: str = ""
    topology: str = ""


def of_run(folder: Path, resources: Mapping[str, str], topology: str = "") -> Settings:
    """Reads the settings from the files of a run, the resources of an entire node and the path of
    NCCL's topology."""
    job, target = job_facts.of_job(folder), job_facts.of_target(folder)
    pods, container = pods_of(folder), job.container
    assert pods is not None, "it is a target of Kubernetes"
    own = {"image": container.image} if container else {}
    return Settings(
        **{**vars(pods), **own},
        paths={name: target.mounts[name] for name in pods.volumes},
        resources=resources,
        most=target.most_nodes,
        priority=pods.priorities.get(job.priority_word, ""),
        shm_size=_quantity((container and container.shm_size) or ""),
        topology=topology,
    )


def _quantity(size: str) -> str:
    """Converts a size in Docker's notation, as `8g`, to Kubernetes'."""
    return f"{size[:-1]}{size[-1].upper() if size[-1] != 'k' else 'K'}i" if size else ""


_FACTORS = {
    "": Fraction(1),
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    **{letter: Fraction(1000**power) for power, letter in enumerate("kMGTPE", 1)},
    **{f"{letter}i": Fraction(1024**power) for power, letter in enumerate("KMGTPE", 1)},
}
_FORM = re.compile(r"^([+-]?\d*\.?\d+)([eE][+-]?\d+)?([numkMGTPE]i?|Ki)?$")


def parse(text: object) -> Fraction:
    """Parses a quantity of Kubernetes. Raises ValueError for anything else."""
    match = _FORM.match(str(text).strip())
    if match is None or (match[3] or "") not in _FACTORS:
        raise ValueError(f"{text!r} is not a quantity")
    return Fraction(match[1] + (match[2] or "")) * _FACTORS[match[3] or ""]


_CPU = "cpu"
_MI = 1 << 20


def counts(resources: Mapping[str, str]) -> tuple[int, int]:
    """Returns the numbers of GPUs and of cores of an entire node, each 0 if it is not given.

    >>> counts({"cpu": "86", "nvidia.com/gpu": "8"}), counts({})
    ((8, 86), (0, 0))
    """
    name = _gpu(resources)
    gpus = parse(resources[name]) if name else 0
    return int(gpus), int(parse(resources.get(_CPU, "0")))


def resources_of(resources: Mapping[str, str], wanted: ResourceRequest | None) -> dict[str, str]:
    """Returns the resources that a task requests: all, or memory in proportion to the resource of
    which it takes the largest part."""
    if wanted is None:
        return dict(resources)
    found, (gpus, cores) = {}, counts(resources)
    if _CPU in resources:
        # An integer, unless a node has more GPUs than processors.
        mine = int(parse(resources[_CPU]) * 1000 * (wanted.gpus or 0) / max(1, gpus))
        found[_CPU] = str(wanted.cores_of(cores, gpus) or f"{mine}m")
    fraction = wanted.node_fraction_of(cores, gpus)
    for name in ("memory", "ephemeral-storage"):  # all others, such as adapters, are a node's
        if name in resources:
            found[name] = f"{int(parse(resources[name]) * fraction / _MI)}Mi"
    name = _gpu(resources)
    if name and wanted.gpus:
        found[name] = str(wanted.gpus)
    return found


def node_fraction_of(resources: Mapping[str, str], wanted: ResourceRequest | None) -> float | None:
    """Returns the fraction of a node that a task takes; None for an entire one."""
    if wanted is None:
        return None
    gpus, cores = counts(resources)
    return round(float(wanted.node_fraction_of(cores, gpus)), 6)


def on_one_node(resources: Mapping[str, str], wanted: ResourceRequest | None) -> int:
    """Returns how many such tasks fit on a node."""
    if wanted is None:
        return 1
    asked = resources_of(resources, wanted)
    amounts = [(parse(resources[name]), parse(text)) for name, text in asked.items()]
    return max(1, min((int(all_ // each) for all_, each in amounts if each), default=1))


def _gpu(resources: Mapping[str, str]) -> str:
    """Returns the name of the GPU resource, as `nvidia.com/gpu`; "" if there is none."""
    return next((name for name in resources if name.endswith("/gpu")), "")
