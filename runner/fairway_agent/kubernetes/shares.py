"""A task's share of a node that it uses beside others, from the resources of an entire node."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from fairway_agent.kubernetes.settings import parse

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fairway_agent.resources import Wanted

_CPU = "cpu"
# Divided as the node is: all else belongs to whole nodes, as their adapters do.
_DIVIDED = ("memory", "ephemeral-storage")
_MI = 1 << 20


def counts(resources: Mapping[str, str]) -> tuple[int, int]:
    """How many GPUs and cores a whole node has, 0 where that is not said.

    >>> counts({"cpu": "86", "nvidia.com/gpu": "8"}), counts({})
    ((8, 86), (0, 0))
    """
    name = _gpu(resources)
    gpus = parse(resources[name]) if name else 0
    return int(gpus), int(parse(resources.get(_CPU, "0")))


def of(resources: Mapping[str, str], wanted: Wanted | None) -> dict[str, str]:
    """What a task asks for: all, or as large a part of the memory as of what it has most of.

    >>> from fairway_agent.resources import Wanted
    >>> of({"cpu": "86", "memory": "1710Gi", "nvidia.com/gpu": "8", "rdma/ib": "8"}, Wanted(gpus=1))
    {'cpu': '10', 'memory': '218880Mi', 'nvidia.com/gpu': '1'}
    """
    if wanted is None:
        return dict(resources)
    found = {}
    if _CPU in resources:
        found[_CPU] = _cpu(resources, wanted)
    part = _part(resources, wanted)
    for name in _DIVIDED:
        if name in resources:
            found[name] = f"{int(parse(resources[name]) * part / _MI)}Mi"
    name = _gpu(resources)
    if name and wanted.gpus:
        found[name] = str(wanted.gpus)
    return found


def part_of(resources: Mapping[str, str], wanted: Wanted | None) -> float | None:
    """How large a part of a node that is; None for a whole one."""
    return None if wanted is None else round(float(_part(resources, wanted)), 6)


def on_one_node(resources: Mapping[str, str], wanted: Wanted | None) -> int:
    """How many such tasks a node has room for."""
    if wanted is None:
        return 1
    asked = of(resources, wanted)
    amounts = [(parse(resources[name]), parse(text)) for name, text in asked.items()]
    return max(1, min((int(all_ // each) for all_, each in amounts if each), default=1))


def _part(resources: Mapping[str, str], wanted: Wanted) -> Fraction:
    gpus, cores = counts(resources)
    parts = [Fraction(wanted.gpus or 0, max(1, gpus))]
    parts.append(Fraction(wanted.cores_of(cores, gpus), max(1, cores)))
    return min(Fraction(1), max(parts))


def _cpu(resources: Mapping[str, str], wanted: Wanted) -> str:
    """Whole processors; parts of them where a node has more GPUs than processors."""
    gpus, cores = counts(resources)
    own = wanted.cores_of(cores, gpus)
    if own:
        return str(own)
    return f"{int(parse(resources[_CPU]) * 1000 * (wanted.gpus or 0) / max(1, gpus))}m"


def _gpu(resources: Mapping[str, str]) -> str:
    """The name of the GPU resource, as `nvidia.com/gpu`; "" if there is none."""
    return next((name for name in resources if name.endswith("/gpu")), "")
