"""SuspendProgram: deletes the instances of nodes that nobody needs."""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING

from . import slurm
from .program import for_each_scale_set

if TYPE_CHECKING:
    from .capacity import Capacity
    from .settings import Settings

_log = logging.getLogger(__name__)


def _suspend(capacity: Capacity, names: list[str], settings: Settings) -> None:
    unwanted = still_unwanted(settings, names)
    try:
        capacity.keep_out(unwanted)
    except slurm.CommandFailed as error:
        _log.warning("%s", error)
    capacity.release(unwanted)


def still_unwanted(settings: Settings, names: list[str]) -> list[str]:
    """The nodes that Slurm has not asked for again in the meantime.

    slurmctld may call for a node's end and for its start at once, and the two programs then
    run side by side: what it says of the node itself is what holds.
    """
    try:
        states = slurm.states(settings)
    except slurm.CommandFailed as error:
        _log.warning("%s; deleting as told", error)
        return names
    return [name for name in names if "POWERING_UP" not in states.get(name, ())]


if __name__ == "__main__":
    sys.exit(for_each_scale_set(_suspend))
