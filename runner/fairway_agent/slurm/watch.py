"""Takes back the jobs of a run that is over a limit of its own. Standard library only."""

from __future__ import annotations

import contextlib

from fairway_agent.faults import Fault
from fairway_agent.shared import submissions, watch
from fairway_agent.slurm import commands


class Watch(watch.Watch):
    """See `shared.watch`: each task that runs looks, and the first that sees it takes the run's
    other jobs back."""

    def take_back(self) -> None:
        """Has Slurm forget those that wait. Where it does not answer, what is about to begin sees
        by itself that it must not."""
        known = submissions.read(self.folder)
        for job in [part.job for part in known.parts if part.job] if known else ():
            with contextlib.suppress(commands.Refused, Fault):
                commands.run(["scancel", "--state=PENDING", job])
