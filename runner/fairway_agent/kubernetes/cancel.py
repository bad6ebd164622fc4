"""Ends a run early: what waits at once, what runs with its signal and grace.

Standard library only.
"""

from __future__ import annotations

from typing import IO, TYPE_CHECKING

from fairway_agent import record
from fairway_agent.kubernetes import names
from fairway_agent.kubernetes.api import BATCH, CORE, Api
from fairway_agent.shared import submissions
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
        delete(api, folder.name)
    if request.kill:
        for pod in api.list(CORE, "pods", _of(folder.name)):
            api.delete(CORE, "pods", pod["metadata"]["name"], at_once=True)
    return Done()


def delete(api: Api, run: str) -> None:
    """Deletes all Jobs of a run, whose pods are told first and have their grace."""
    for job in list(api.list(BATCH, "jobs", _of(run))):
        api.delete(BATCH, "jobs", job["metadata"]["name"])


def _of(run: str) -> dict[str, str]:
    return {"labelSelector": f"{names.RUN}={names.label(run)}"}
