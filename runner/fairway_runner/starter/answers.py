"""Answers from which a new environment is made: the allowed values, and the defaults."""

from __future__ import annotations

import configparser
import json
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from fairway_core.catalog import default_image, image, limit, vm_size
from fairway_core.catalog.limits import require_region
from fairway_core.documents import FieldError
from fairway_core.environment.values import Location, offered_size
from fairway_core.fields import PLACEHOLDER, Email
from fairway_core.findings import Finding, UserError
from fairway_core.light_fields import as_field_error
from fairway_core.suggestions import did_you_mean

# For each cluster engine, the default first: a VM size, and a number of such nodes.
ENGINES = {
    "ssh": ("Standard_NC40ads_H100_v5", 1),
    "slurm": ("Standard_ND96isr_H100_v5", 4),
    "batch": ("Standard_ND96asr_v4", 4),
}
_USUAL = {"engine": "ssh", "location": "southcentralus", "budget": 1500, "email": PLACEHOLDER}


@dataclass(frozen=True)
class Answers:
    """The answers; `budget` is in USD a month, `nodes` the number of nodes, or the largest if it
    varies."""

    location: str
    engine: str
    size: str
    nodes: int
    budget: int
    email: str

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Answers:
        """Returns the given answers, and defaults. Raises UserError if Azure refuses one."""
        engine = checked("engine", given.get("engine") or default_answer("engine"))
        found = {
            name: checked(
                name, default_answer(name, engine) if given.get(name) is None else given[name]
            )
            for name in ("location", "size", "nodes", "budget", "email")
        }
        return cls(engine=engine, **found)

    @property
    def cluster(self) -> str:
        return "gpu" if vm_size(self.size).gpu else "cpu"


def default_answer(name: str, engine: str | None = None) -> Any:
    """Returns the default of an option that was not given, for that engine or the usual one."""
    size, nodes = ENGINES[engine or "ssh"]
    return {**_USUAL, "size": size, "nodes": nodes}[name]


def account_answers() -> dict[str, str]:
    """Returns the region and the email address that the Azure CLI has stored; asks no service."""
    folder = Path(os.environ.get("AZURE_CONFIG_DIR") or Path.home() / ".azure")
    found = {}
    settings = configparser.ConfigParser(interpolation=None)
    try:
        settings.read(folder / "config", encoding="utf-8")
        found["location"] = checked("location", settings["defaults"]["location"])
    except (OSError, ValueError, KeyError, configparser.Error, UserError):
        pass
    try:
        profile = json.loads((folder / "azureProfile.json").read_text("utf-8-sig"))
        (name,) = [each["user"]["name"] for each in profile["subscriptions"] if each["isDefault"]]
        found["email"] = checked("email", name)
    except (OSError, ValueError, KeyError, TypeError, UserError):
        pass
    return found


def validated(option: str, kind: Any, value: str) -> Any:
    """Returns the value converted to a field's type. Raises UserError that names the option."""
    try:
        return TypeAdapter(kind).validate_python(value)
    except ValidationError as error:
        fault = error.errors()[0]["ctx"]["error"]
        raise UserError.of("bad-value", f"{option}: {fault}", getattr(fault, "hint", "")) from None


def _region(text: str) -> str:
    location: str = validated("--location", Location, text)
    more = "use another one here, and change `location:` in the environment file"
    require_region("--location", location, f"is it a new one? {more}")
    return location


def _engine(text: str) -> str:
    if text not in ENGINES:
        message = f"--engine: there is no engine `{text}` for clusters"
        raise UserError.of("bad-value", message, did_you_mean(text, ENGINES))
    return text


def _size(text: str) -> str:
    try:
        size = offered_size(text)
        default_image(size)
        return size.name
    except (FieldError, UserError) as error:
        fault = as_field_error(error) if isinstance(error, UserError) else error
        hint = fault.hint or "fairway sizes lists them"
        raise UserError.of("bad-value", f"--size: {fault}", hint) from None


def _count(option: str, most: int) -> Any:
    def check(value: Any) -> int:
        if not str(value).isdecimal() or not 1 <= int(value) <= most:
            message = f"{option}: `{value}` is not a number from 1 to {most}"
            raise UserError.of("bad-value", message, f"for example {option} {min(4, most)}")
        return int(value)

    return check


_CHECKS: dict[str, Callable[[Any], Any]] = {
    "location": _region,
    "engine": _engine,
    "size": _size,
    "nodes": _count("--nodes", 100),
    "budget": _count("--budget", 10_000_000),
    "email": partial(validated, "--email", Email),
}


def checked(name: str, value: Any) -> Any:
    """Returns an answer as it is stored. Raises UserError if Azure or a cluster cannot have it."""
    return _CHECKS[name](value)


_HPC = "ubuntu-hpc-2404"
# Sizes of a file server, the default first, with their numbers of disks.
_SERVERS = (
    ("Standard_D16s_v6", 4),
    ("Standard_D32s_v6", 4),
    ("Standard_D64s_v6", 4),
    ("Standard_D96s_v6", 8),
    ("Standard_D128s_v6", 8),
)
# Minimum MB/s and IOPS of each disk. Source: Azure documentation, Premium SSD v2.
_LEAST_MBPS, _LEAST_IOPS, _IOPS_FOR_A_MBPS = 125, 3000, 4
_FILESYSTEM = """\
filesystems:
  # A server with {count} disks, whose file system all nodes mount at /data.
  data:
    kind: nfs_server
{size}    disks: {{{disks}}}
    path: /data

"""
_MORE = """\
  # Several nodes of a size with InfiniBand (`fairway sizes --rdma`) are a cluster for MPI. They
  # share a file system, which `filesystems:` describes:
  #
  #   filesystems:
  #     data:
  #       kind: nfs_server
  #       size: Standard_D32s_v6
  #       disks: {count: 4, gib: 1024, iops: 5000, mbps: 500}
  #       path: /data
  #   clusters:
  #     pair: {engine: ssh, size: Standard_ND96isr_H100_v5, nodes: 2, mounts: [data]}
"""


def clusters(answers: Answers) -> str:
    """Returns `clusters:`, and `filesystems:` if several nodes share one."""
    size, several = vm_size(answers.size), answers.engine != "batch" and answers.nodes > 1
    lines = [f"    engine: {answers.engine}", f"    size: {size.name}"]
    if answers.engine == "ssh":
        comment = f"One VM with {_what(answers)}: a cluster of one node."
        if answers.nodes > 1:
            comment = f"{answers.nodes} VMs with {_what(answers)} each."
        lines.append(f"    nodes: {answers.nodes}")
    else:
        comment = f"Up to {answers.nodes} VMs with {_what(answers)} each, as jobs need them."
        lines.append(f"    nodes: {{min: 0, max: {answers.nodes}}}")
        several = answers.engine == "slurm"
    if answers.engine == "batch":
        lines.append("    autoscale: pending_tasks")
    elif size.gpu and image(_HPC).fits(size):
        lines.append(f"    image: {_HPC}")
    if several:
        lines.append("    mounts: [data]")
    text = "\n".join(["clusters:", f"  # {comment}", f"  {answers.cluster}:", *lines]) + "\n"
    return f"{_filesystem(answers) if several else ''}{text}{'' if several else _MORE}".rstrip("\n")


def _filesystem(answers: Answers) -> str:
    """Returns `filesystems:`, with a server that can feed all GPUs, if there is one."""
    gpu = vm_size(answers.size).gpu
    wanted = (gpu.count if gpu else 0) * answers.nodes * limit("gpu_read_mbps")
    name, count = next((each for each in _SERVERS if _passes_on(each[0]) >= wanted), _SERVERS[-1])
    mbps = math.ceil(min(wanted, _passes_on(name)) / count)
    disks = f"count: {count}, gib: 1024"
    if mbps > _LEAST_MBPS:
        iops = max(_LEAST_IOPS, _IOPS_FOR_A_MBPS * mbps)
        disks += f", iops: {iops}, mbps: {mbps}"
    usual = name == _SERVERS[0][0]
    return _FILESYSTEM.format(
        count={4: "four", 8: "eight"}[count],
        size="" if usual else f"    size: {name}\n",
        disks=disks,
    )


def _passes_on(server: str) -> int:
    """Returns the MB/s that disks and network interface of a server of that size can deliver."""
    size = vm_size(server)
    return min(size.remote_disk_mbps or 0, int((size.network_gbps or 0) * 1000 / 8))


def checks(known: Sequence[Finding]) -> str:
    """Returns `checks:` with the findings that `fairway check` gives; empty without any."""
    if not known:
        return ""
    ignored = "".join(f"    - {each.id}  # {each.message}\n" for each in known)
    return (
        "# Known of the answers that this file was made with: remove a line to be told again.\n"
        f"checks:\n  ignore:\n{ignored}\n"
    )


def _what(answers: Answers) -> str:
    size = vm_size(answers.size)
    if size.gpu is None:
        return f"{size.vcpus} cores"
    return f"{size.gpu.count} {size.gpu.model}" if size.gpu.count > 1 else f"one {size.gpu.model}"
