"""What slurmdbd remembers of jobs that slurmctld has forgotten. Standard library only."""

from __future__ import annotations

from fairway_agent.faults import Fault
from fairway_agent.slurm import commands
from fairway_agent.slurm.commands import Element


def look_up(job: str, index: int) -> Element | None:
    """A job that has ended; None where there is no accounting, or it knows no end of it."""
    name = job if index < 0 else f"{job}_{index}"
    # Not --json: Slurm 22.05 reports success there for jobs that failed.
    fields = "State,Reason,NodeList,End,Comment"
    try:
        listed = commands.run(["sacct", "-n", "-P", "-X", "-j", name, "-o", fields])
    except (commands.Refused, Fault):
        return None
    for line in reversed([each for each in listed.splitlines() if each.count("|") >= 4]):
        state, reason, nodes, ended, comment = line.split("|", 4)
        # "CANCELLED by 1000"; and a row without an end is one that slurmdbd has lost sight of.
        state = state.partition(" ")[0]
        if state in commands.ENDED and ended != "Unknown":
            return Element(job, index, state, reason, nodes, ended, comment)
    return None
