"""What slurmctld calls to have nodes and not, and when one did not come up in time.

Started as `power resume|suspend|resume-fail HOSTLIST`: slurm.conf's ResumeProgram, SuspendProgram
and ResumeFailProgram.
"""

from __future__ import annotations

import logging
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from fairway_agent.azure.http import Failure
from fairway_agent.slurm.autoscale import slurmctld
from fairway_agent.slurm.autoscale.capacity import Capacity
from fairway_agent.slurm.autoscale.settings import begin

if TYPE_CHECKING:
    from fairway_agent.slurm.autoscale.settings import Settings

_log = logging.getLogger(__name__)


def resume(capacity: Capacity, names: list[str], _: Settings) -> None:
    """Has Azure make instances for the nodes that Slurm is going to use."""
    capacity.grow(names)


def suspend(capacity: Capacity, names: list[str], settings: Settings) -> None:
    """Deletes the instances of nodes that nobody needs."""
    unwanted = still_unwanted(settings, names)
    try:
        capacity.keep_out(unwanted)
    except slurmctld.CommandFailed as error:
        _log.warning("%s", error)
    capacity.release(unwanted)


def resume_fail(capacity: Capacity, names: list[str], _: Settings) -> None:
    """Nodes that did not come up in time are cloud again, and rest for a while."""
    try:
        capacity.give_up_on(names)
    finally:
        capacity.put_back(names)


_WORK = {"resume": resume, "suspend": suspend, "resume-fail": resume_fail}


def still_unwanted(settings: Settings, names: list[str]) -> list[str]:
    """The nodes that Slurm has not asked for again in the meantime.

    slurmctld may call for a node's end and for its start at once, and the two programs then
    run side by side: what it says of the node itself is what holds.
    """
    try:
        states = slurmctld.states(settings)
    except slurmctld.CommandFailed as error:
        _log.warning("%s; deleting as told", error)
        return names
    return [name for name in names if "POWERING_UP" not in states.get(name, ())]


def main(arguments: list[str]) -> int:
    """Does the work for a host list, side by side for each scale set.

    Answers with 0, or with 1 where a scale set could not be dealt with, whose reason is logged.
    """
    if len(arguments) != 2 or arguments[0] not in _WORK:
        sys.stderr.write(f"usage: {'|'.join(_WORK)} HOSTLIST\n")
        return 2
    what, host_list = arguments
    settings, metadata = begin()
    _log.info("%s %s", what, host_list)
    groups = slurmctld.by_partition(slurmctld.expand(host_list))
    known = {name: nodes for name, nodes in groups.items() if name in settings.scale_sets}
    for name in groups.keys() - known.keys():
        _log.error("no scale set is called %s", name)

    def one(name: str) -> bool:
        try:
            _WORK[what](Capacity(settings, metadata, name), known[name], settings)
        except (Failure, slurmctld.CommandFailed) as error:
            _log.error("%s: %s", name, error)
            return False
        return True

    with ThreadPoolExecutor(max_workers=8) as pool:
        done = list(pool.map(one, known))
    return 0 if all(done) and len(known) == len(groups) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
