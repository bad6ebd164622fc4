"""Ends pods that never get their container: the nodes that they have stay empty meanwhile. Standard
library only."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fairway_agent import fields, record
from fairway_agent.fields import Fields
from fairway_agent.kubernetes import names, whys
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
_FILE = "stuck.json"  # since when pods were seen so


@dataclass
class Hopeless:
    """Of a run in this `folder`: `whys` are what was ended, Jobs and pods by their names, and
    why."""

    folder: Path
    now: float
    whys: dict[str, str] = field(default_factory=dict)

    def end(self, api: Api, objects: Objects, known: Submission, begun: set[str]) -> None:
        """Ends what has been stuck for long enough, and notes what is stuck."""
        before = fields.read(self.folder / _FILE, _times) or {}
        since: dict[str, float] = {}

        def for_long(pod: Object) -> bool:
            name = pod["metadata"]["name"]
            since[name] = min(before.get(name, self.now), self.now)
            return self.now - since[name] >= PATIENCE

        for part in known.parts:
            for pod, why in _stuck(objects, part.job):
                if for_long(pod):
                    self._end(api, part, pod, why, known.submission, begun)
        keeper = names.job(self.folder.name, known.submission, names.KEEPER)
        for pod, why in _stuck(objects, keeper):
            if for_long(pod):
                self.whys[keeper] = f"nothing could start it: {why}"
                api.delete(BATCH, "jobs", keeper)
        if before.keys() - since.keys():
            self._take_back(known, since)
        if since != before:
            record.write_json(self.folder / _FILE, since)

    def why(self, part: Part, pod: str) -> str:
        """Why a task was ended; "" where it was not."""
        return self.whys.get(part.job) or self.whys.get(pod, "")

    def _take_back(self, known: Submission, since: dict[str, float]) -> None:
        """What is stuck no more is no reason for a task's first pod, which may be yet to begin."""
        for part in known.parts:
            if part.nodes > 1 and not any(name.startswith(f"{part.job}-") for name in since):
                task = part.task_folder(self.folder, part.indices[0])
                whys.write(whys.folder_of(task, known.submission) / whys.GANG, "")

    def _end(
        self, api: Api, part: Part, found: Object, why: str, submission: int, begun: set[str]
    ) -> None:
        pod = found["metadata"]["name"]
        if part.job in self.whys:
            return
        if part.nodes > 1 and index_of(found) > 0:
            # The first of a task on several nodes, which waits for this one, says the end.
            task = part.task_folder(self.folder, part.indices[0])
            there = whys.folder_of(task, submission)
            if there.is_dir():
                whys.write(there / whys.GANG, why)
            return
        has_begun = any(part.task_folder(self.folder, each).name in begun for each in part.indices)
        if part.nodes == 1 and has_begun:
            # Others of its tasks may run: its index alone fails.
            self.whys[pod] = why
            api.delete(CORE, "pods", pod)
        else:
            self.whys[part.job] = why
            api.delete(BATCH, "jobs", part.job)


def _stuck(objects: Objects, job: str) -> Iterator[tuple[Object, str]]:
    """The pods of a Job that are stuck, and why."""
    for pod in objects.pods.get(job, ()) if job else ():
        why = why_stuck(pod) if pod["status"].get("phase") == "Pending" else ""
        if why and "deletionTimestamp" not in pod["metadata"]:
            yield pod, why


def _times(facts: object) -> dict[str, float]:
    found = Fields(facts, "the note of what is stuck")
    return {name: found.span_or_none(name) or 0.0 for name in found.facts}
