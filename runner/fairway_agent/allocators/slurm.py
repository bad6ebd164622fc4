"""The nodes that Slurm has given the task of this job. Standard library only."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

from fairway_agent.allocators.hosts import Host
from fairway_agent.share import Share, numbers_of, ports_beside
from fairway_agent.slurm import commands

if TYPE_CHECKING:
    from fairway_agent.share import Wanted

_PORTS = 256  # ranges, one of which a job has by its number


def given() -> list[Host]:
    """The nodes of this job's allocation, the one of its batch script first."""
    compact = os.environ["SLURM_JOB_NODELIST"]
    names = [compact]
    if "[" in compact or "," in compact:
        names = commands.run(["scontrol", "show", "hostnames", compact]).split()
    return [Host(name, name) for name in names]


def with_share(host: Host, wanted: Wanted, part: float | None) -> Host:
    """The job's node, with what of it the job has; the `part` is that of the submission."""
    gpus = numbers_of(os.environ.get("SLURM_JOB_GPUS", "")) if wanted.gpus else ()
    cores = tuple(sorted(os.sched_getaffinity(0)))
    if len(cores) == os.cpu_count():
        cores = ()  # Slurm keeps its jobs on no cores here
    ports = ports_beside([int(os.environ["SLURM_JOB_ID"]) % _PORTS], _PORTS)
    return replace(host, share=Share(gpus, cores, part or 1.0, ports))
