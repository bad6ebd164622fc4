"""What the programs that slurmctld starts have in common: arguments and one exit code."""

from __future__ import annotations

import logging
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from fairway_agent.azure.http import Failure

from . import settings as settings_file
from . import slurm
from .capacity import Capacity
from .log import log_to

if TYPE_CHECKING:
    from collections.abc import Callable

    from .settings import Settings

_log = logging.getLogger(__name__)


def for_each_scale_set(work: Callable[[Capacity, list[str], Settings], None]) -> int:
    """Does the work for the host list in the first argument, side by side for each scale set.

    Answers with 0, or with 1 where a scale set could not be dealt with, whose reason is logged.
    """
    if len(sys.argv) != 2:
        sys.stderr.write(f"usage: {sys.argv[0]} HOSTLIST\n")
        return 2
    settings = settings_file.load()
    log_to(settings)
    _log.info("%s %s", work.__name__.strip("_"), sys.argv[1])
    groups = slurm.by_partition(slurm.expand(sys.argv[1]))
    known = {name: nodes for name, nodes in groups.items() if name in settings.scale_sets}
    for name in groups.keys() - known.keys():
        _log.error("no scale set is called %s", name)
    metadata = settings_file.metadata_service(settings)

    def one(name: str) -> bool:
        try:
            work(Capacity(settings, metadata, name), known[name], settings)
        except (Failure, slurm.CommandFailed) as error:
            _log.error("%s: %s", name, error)
            return False
        return True

    with ThreadPoolExecutor(max_workers=8) as pool:
        done = list(pool.map(one, known))
    return 0 if all(done) and len(known) == len(groups) else 1
