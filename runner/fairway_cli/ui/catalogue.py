"""Small tables: nodes and their use, targets, sizes, offers, templates, firewall rules."""

from __future__ import annotations

import json
import time
from dataclasses import asdict, replace
from itertools import groupby
from typing import TYPE_CHECKING, Any

from fairway_cli.ending import warn
from fairway_cli.ui.columns import CYAN, GREEN, RED, YELLOW, columns
from fairway_core.findings import Severity, UserError
from fairway_runner.quantities import duration, iso, size
from fairway_runner.runs.figures import mean

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from fairway_core.catalog import VmSize
    from fairway_core.environment.egress import Outbound
    from fairway_core.target import Target
    from fairway_runner.engines.engine import Node
    from fairway_runner.live.requirements import Offer
    from fairway_runner.runs.figures import Sample

_NODE_COLOURS = {"idle": GREEN, "running": CYAN, "allocated": CYAN, "mixed": CYAN}
_BROKEN = ("unusable", "starttaskfailed", "down", "offline", "drain", "fail", "unknown", "lost")
# Sizes with another status are retired, or unsupported.
_SIZE_COLOURS = {"current": GREEN, "retiring": YELLOW, "no-new-capacity": YELLOW}


def node_table(nodes: Sequence[Node]) -> str:
    more = list(dict.fromkeys(name for node in nodes for name in node.facts))
    header = ("NODE", "STATE", "ADDRESS", "RUN", *(name.upper() for name in more), "REASON")
    rows, colours = [], {}
    for node in nodes:
        extra = [node.facts.get(name, "") for name in more]
        rows.append((node.name, node.state, node.address, node.run, *extra, node.reason))
        known = node.state.lower()
        colours[node.state] = RED if known.startswith(_BROKEN) else _NODE_COLOURS.get(known, "")
    return columns(header, rows, colours)


def offer_facts(offer: Offer) -> dict[str, Any]:
    """Returns one size; `room` is for how many VMs the quota has room, null if unknown here."""
    facts = {**asdict(offer), "room": offer.room, "offered": not offer.refusal}
    return {**facts, "refusal": offer.refusal or None, "nearest": offer.nearest or None}


def offer_table(offers: Sequence[Offer]) -> str:
    """Returns a line for each part of the environment."""
    header = ("SIZE", "FOR", "WANTED", "YOURS", "ZONES", "VCPUS LEFT", "ROOM FOR", "NEAREST")
    rows = [
        (
            offer.size,
            offer.path,
            f"{offer.wanted}{' Spot' if offer.spot else ''}",
            offer.refusal or "yes",
            ", ".join(offer.zones) or "-",
            "?" if offer.vcpus_left is None else f"{offer.vcpus_left} of {offer.vcpus_limit}",
            "?" if offer.room is None else str(offer.room),
            offer.nearest,
        )
        for offer in offers
    ]
    return columns(header, rows)


def outbound_table(names: Sequence[Outbound]) -> str:
    rows = [(each.name, str(each.port), each.reason) for each in names]
    return columns(("OUTBOUND NAME", "PORT", "FOR"), rows)


def select(sizes: Iterable[VmSize], *, rdma: bool, gpu: str | None) -> list[VmSize]:
    """Returns the sizes with InfiniBand, or with that GPU. Raises UserError if no size has it."""
    known = list(sizes)
    if gpu is not None:
        models = {size.gpu.model for size in known if size.gpu}
        if not any(gpu.lower() == model.lower() for model in models):
            from fairway_core.suggestions import did_you_mean

            hint = did_you_mean(gpu, models, most=40)
            raise UserError.of("unknown-gpu", f"no size has the GPU `{gpu}`", hint)
        known = [size for size in known if size.gpu and size.gpu.model.lower() == gpu.lower()]
    return [size for size in known if size.rdma or not rdma]


def size_facts(size: VmSize) -> dict[str, Any]:
    """Returns one size: memory in GiB, GPU memory in GB, InfiniBand in Gb/s per adapter."""
    return {
        "name": size.name,
        "vcpus": size.vcpus,
        "memory_gib": size.memory_gib,
        "gpu": size.gpu.model if size.gpu else None,
        "gpus": size.gpu.count if size.gpu else 0,
        "gpu_memory_gb": size.gpu.memory_gb if size.gpu else None,
        "infiniband_adapters": size.infiniband.adapters if size.infiniband else 0,
        "infiniband_gbps": size.infiniband.gbps if size.infiniband else None,
        "rdma": size.rdma,
        "status": _status(size),
        "retirement_date": size.retirement_date.isoformat() if size.retirement_date else None,
        "successor": size.successor or None,
        "unsupported": size.unsupported or None,
        "quota_family": size.quota_family or None,
    }


def size_table(sizes: Iterable[VmSize]) -> str:
    rows, colours = [], {}
    for each in sizes:
        gpu = f"{each.gpu.count} × {each.gpu.model} {each.gpu.memory_gb} GB" if each.gpu else ""
        when = f" {each.retirement_date}" if each.retirement_date else ""
        status = f"{_status(each)}{when}"
        colours[status] = _SIZE_COLOURS.get(_status(each), RED)
        fabric = ""
        if each.infiniband is not None:
            fabric = f"{each.infiniband.adapters} × {each.infiniband.gbps} Gb/s"
            fabric += "" if each.rdma else " (no MPI)"
        rows.append((each.name, gpu, f"{each.memory_gib} GiB", fabric, status, each.successor))
    return columns(("SIZE", "GPU", "MEMORY", "INFINIBAND", "STATUS", "SUCCESSOR"), rows, colours)


def _status(size: VmSize) -> str:
    return "retired" if size.is_retired() else size.status


def warn_of_unready(targets: Iterable[Target]) -> None:
    """Prints to standard error which targets take no jobs yet, and why."""
    from fairway_runner.engines.engine import unready

    for target in targets:
        if (finding := unready(target)) is not None:
            warn(replace(finding, severity=Severity.WARNING))


def target_table(facts: Sequence[dict[str, Any]]) -> str:
    from fairway_runner.engines.capabilities import runs_here

    rows = []
    for each in facts:
        limit = "" if runs_here(each["engine"]) else f"/{each['nodes_max']}"
        now = "?" if each["nodes_now"] is None else each["nodes_now"]
        fabric = f"{each['infiniband_gbps']} Gb/s" if each["infiniband_gbps"] else ""
        nodes = f"{now}{limit}" if each["ready"] else "not ready"
        mounts = " ".join(f"{name}:{path}" for name, path in each["mounts"].items())
        cells = (each["name"], each["engine"], each["vm_size"] or "", str(each["gpus"] or ""))
        rows.append((*cells, fabric, nodes, mounts, each["source"]))
    titles = ("TARGET", "ENGINE", "SIZE", "GPUS", "INFINIBAND", "NODES", "MOUNTS", "FROM")
    return columns(titles, rows)


def print_list(listed: list[dict[str, str]]) -> None:
    """Prints a line per template, below the folder it comes from."""
    width = max((len(each["name"]) for each in listed), default=0)
    for folder, templates in groupby(listed, key=lambda each: each["folder"]):
        print(folder)
        for each in templates:
            print(f"  {each['name']:<{width}}  {each['description']}")
    print("\nmore of one: fairway templates NAME")


def print_explanation(facts: dict[str, Any]) -> None:
    """Prints what a template does, needs and takes, and a job file that uses it."""
    print(facts["description"])
    print(f"\nfile     {facts['file']}")
    if facts["needs"]:
        print(f"needs    {', '.join(facts['needs'])} on the main host's PATH")
    for name, option in facts["options"].items():
        kind = " | ".join(option["choices"]) if option.get("choices") else option["type"]
        default = f"default {json.dumps(option['default'])}" if "default" in option else "required"
        print(f"\n  {name}  ({kind}, {default})\n      {option['help']}")
    print("\nA job that uses it:\n")
    print("".join(f"  {line}\n" for line in facts["job"].splitlines()), end="")


_TITLES = (
    *("NODE", "GPUS", "GPU MEMORY", "POWER", "CPU", "MEMORY", "I/O WAIT"),
    *("DISK R/W", "NETWORK IN/OUT", "INFINIBAND IN/OUT", "AGE"),
)


def sample_facts(samples: Mapping[str, Sample]) -> list[dict[str, Any]]:
    """Returns the last sample of each node; null for unknown values."""
    return [
        {"node": node, **asdict(sample), "time": iso(sample.time)}
        for node, sample in samples.items()
    ]


def use_table(samples: Mapping[str, Sample], now: float | None = None) -> str:
    """Returns a line for each node: its last sample, and how old that is."""
    moment = time.time() if now is None else now
    rows = [
        (
            node,
            _share(sample.gpu_use),
            _part(
                _sum(gpu.memory for gpu in sample.gpus),
                _sum(gpu.memory_total for gpu in sample.gpus),
            ),
            _power(_sum(gpu.power for gpu in sample.gpus)),
            _share(sample.cpu),
            _part(sample.memory, sample.memory_total),
            _share(sample.io_wait),
            _rates(sample.disk_read, sample.disk_written),
            _rates(sample.received, sample.sent),
            _rates(sample.fabric_received, sample.fabric_sent),
            duration(max(0.0, moment - sample.time)),
        )
        for node, sample in samples.items()
    ]
    return columns(_TITLES, rows)


def gpu_table(samples: Mapping[str, Sample]) -> str:
    """Returns a line for each GPU of every node; "" if there is none."""
    rows = [
        (
            node,
            str(gpu.index),
            _share(gpu.use),
            _part(gpu.memory, gpu.memory_total),
            _power(gpu.power),
            _rates(gpu.nvlink_received, gpu.nvlink_sent),
        )
        for node, sample in samples.items()
        for gpu in sample.gpus
    ]
    if not rows:
        return ""
    return columns(("NODE", "GPU", "USE", "MEMORY", "POWER", "NVLINK IN/OUT"), rows)


def _sum(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _share(value: float | None) -> str:
    return "" if value is None else f"{value:.0%}"


def _part(value: float | None, total: float | None) -> str:
    if value is None:
        return ""
    return size(int(value)) + (f" of {size(int(total))}" if total else "")


def _power(value: float | None) -> str:
    return "" if value is None else f"{value:.0f} W"


def _rates(first: float | None, second: float | None) -> str:
    if mean((first, second)) is None:
        return ""
    return " / ".join("?" if v is None else f"{size(int(v))}/s" for v in (first, second))
