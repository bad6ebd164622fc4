"""Ends pods that never get their container: the nodes that they have stay empty meanwhile. Standard
library only."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fairway_agent import control
from fairway_agent.kubernetes.api import BATCH, CORE
from fairway_agent.kubernetes.objects import index_of
from fairway_agent.kubernetes.task_state import why_stuck

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from fairway_agent.control import Part
    from fairway_agent.kubernetes.api import Api
    from fairway_agent.kubernetes.objects import Object, Objects
    from fairway_agent.shared.submissions import Submission

# Seconds from the first look that sees it: registries have their bad minutes.
PATIENCE = 300.0


@dataclass
class StuckPods:
    """Those of the run in a `folder`, and `since` when each was seen so. Why something was ended is
    in the run's control record before it is, so that a look meanwhile knows it."""

    api: Api
    folder: Path
    since: dict[str, float] = field(default_factory=dict)

    def end(self, objects: Objects, known: Submission, now: float) -> None:
        """Ends what has been stuck for long enough, and remembers what is stuck."""
        before, self.since = self.since, {}
        ended = control.read(self.folder).of(known.submission).ended
        for part in known.parts:
            first = part.task_folder(self.folder, part.indices[0]).name
            why_not = ""
            for pod, why in stuck(objects, part.job):
                name = pod["metadata"]["name"]
                self.since[name] = before.get(name, now)
                if now - self.since[name] < PATIENCE and name not in ended:
                    continue
                if part.nodes > 1 and index_of(pod) > 0:
                    # The first of a task on several nodes, which waits for this one, says the end.
                    why_not = why
                else:
                    self._end(part, name, why, known.submission)
            if part.nodes > 1:
                control.note_blocked(self.folder, known.submission, first, why_not)

    def _end(self, part: Part, pod: str, why: str, submission: int) -> None:
        folders = [part.task_folder(self.folder, index) for index in part.indices]
        # Others of its tasks may run: then its index alone fails.
        alone = part.nodes == 1 and any(folder.exists() for folder in folders)
        with control.locked(self.folder):
            ended = control.read(self.folder).of(submission).ended
            ended = {pod if alone else part.job: why, **ended}
            control.change(self.folder, submission, ended=ended)
        self.api.delete(*((CORE, "pods", pod) if alone else (BATCH, "jobs", part.job)))


def stuck(objects: Objects, job: str) -> Iterator[tuple[Object, str]]:
    """The pods of a Job that are stuck, and why."""
    for pod in objects.pods.get(job, ()) if job else ():
        why = why_stuck(pod) if pod["status"].get("phase") == "Pending" else ""
        if why and "deletionTimestamp" not in pod["metadata"]:
            yield pod, why
