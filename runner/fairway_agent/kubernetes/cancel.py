"""Ends a run early: what waits at once, what runs with its signal and grace.

Standard library only.
"""

from __future__ import annotations

from typing import IO, TYPE_CHECKING

from fairway_agent import record
from fairway_agent.fields import Damaged
from fairway_agent.kubernetes import names, owner
from fairway_agent.kubernetes.api import BATCH, CORE, Api
from fairway_agent.shared import plans, submissions
from fairway_agent.shared.reports import CancelRequest, Done

if TYPE_CHECKING:
    from pathlib import Path

REQUEST = CancelRequest


def answer(
    shared: Path,
    request: CancelRequest,
    payload: IO[bytes],  # noqa: ARG001
) -> Done:
    """Ends a submission. What was being submitted by somebody else is taken back too."""
    folder = shared / "runs" / request.run
    if not folder.is_dir():
        return Done()
    api = Api()
    with record.alone(folder / "submit.lock"):
        submissions.cancel(folder, request.submission)
        spared = _teller(folder)
        delete(api, folder, spared)
    if request.kill:
        for pod in api.list(CORE, "pods", owner.selector(folder.name)):
            if not owner.owns(folder, pod):
                continue
            if not spared or pod["metadata"]["labels"].get(names.PART) != names.KEEPER:
                api.delete(CORE, "pods", pod["metadata"]["name"], at_once=True)
    return Done()


def delete(api: Api, folder: Path, spared: str = "") -> None:
    """Deletes all Jobs of a run but the one that is `spared`; their pods are told first and have
    their grace."""
    for job in owner.jobs(api, folder):
        if job["metadata"]["name"] != spared:
            api.delete(BATCH, "jobs", job["metadata"]["name"])


def _teller(folder: Path) -> str:
    """The keeper of a run of whose end somebody wants to hear: it ends once it has told that. ""
    where nobody does, or where the keeper would wait for ever."""
    try:
        known = submissions.read(folder)
        if known is None or not known.complete:
            return ""
        wants = plans.read(folder, retry=known.submission > 0).notify is not None
    except Damaged:
        return ""
    return names.job(folder.name, known.submission, names.KEEPER) if wants else ""
