"""The nodes that Slurm has given the task of this job. Standard library only."""

from __future__ import annotations

import os

from fairway_agent.allocators.hosts import Host
from fairway_agent.slurm import commands


def given() -> list[Host]:
    """The nodes of this job's allocation, the one of its batch script first."""
    compact = os.environ["SLURM_JOB_NODELIST"]
    names = [compact]
    if "[" in compact or "," in compact:
        names = commands.run(["scontrol", "show", "hostnames", compact]).split()
    return [Host(name, name) for name in names]
