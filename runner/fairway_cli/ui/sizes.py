"""VM sizes as plain data and as a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fairway_core.findings import UserError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fairway_core.catalog import VmSize

_COLOURS = {"current": "green", "retiring": "yellow", "no-new-capacity": "yellow"}
_GONE = "red"  # retired, or not for Fairway


def select(sizes: Iterable[VmSize], *, rdma: bool, gpu: str | None) -> list[VmSize]:
    """The sizes with InfiniBand, or with that GPU; UserError where no size has such a GPU."""
    known = list(sizes)
    if gpu is not None:
        models = {size.gpu.model for size in known if size.gpu}
        if not any(gpu.lower() == model.lower() for model in models):
            from fairway_core.suggestions import did_you_mean

            raise UserError.of(
                "unknown-gpu", f"no size has the GPU `{gpu}`", did_you_mean(gpu, models, most=40)
            )
        known = [size for size in known if size.gpu and size.gpu.model.lower() == gpu.lower()]
    return [size for size in known if size.rdma or not rdma]


def size_facts(size: VmSize) -> dict[str, Any]:
    """One size: memory in GiB, GPU memory in GB, InfiniBand in Gb/s an adapter; null for none."""
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


def print_sizes(sizes: Iterable[VmSize]) -> None:
    """A line a size, in the order of the catalogue."""
    from rich.text import Text

    from fairway_cli.ui.tables import new_table, print_table

    rows = new_table("SIZE", "GPU", "MEMORY", "INFINIBAND", "STATUS", "SUCCESSOR")
    for size in sizes:
        status = _status(size)
        when = f" {size.retirement_date}" if size.retirement_date else ""
        rows.add_row(
            size.name,
            f"{size.gpu.count} × {size.gpu.model} {size.gpu.memory_gb} GB" if size.gpu else "",
            f"{size.memory_gib} GiB",
            _infiniband(size),
            Text(f"{status}{when}", style=_COLOURS.get(status, _GONE)),
            size.successor,
        )
    print_table(rows)


def _status(size: VmSize) -> str:
    return "retired" if size.is_retired() else size.status


def _infiniband(size: VmSize) -> str:
    if size.infiniband is None:
        return ""
    without = "" if size.rdma else " (no MPI)"
    return f"{size.infiniband.adapters} × {size.infiniband.gbps} Gb/s{without}"
