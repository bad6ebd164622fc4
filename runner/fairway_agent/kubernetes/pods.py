"""The pods of a run, for who wants to go into one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairway_agent.kubernetes import submit
from fairway_agent.kubernetes.api import CORE, PART, Api
from fairway_agent.kubernetes.objects import index_of
from fairway_agent.kubernetes.reports import PodReport, PodsReport, PodsRequest

if TYPE_CHECKING:
    from pathlib import Path

REQUEST = PodsRequest


def answer(shared: Path, request: PodsRequest, _: object) -> PodsReport:
    """Lists the pods in which the run's tasks are running."""
    folder = shared / "runs" / request.run
    query = {**submit.selector(folder.name), "fieldSelector": "status.phase=Running"}
    found = []
    for pod in Api().list(CORE, "pods", query):
        facts = pod["metadata"]
        if submit.owns(folder, pod) and index_of(pod) >= 0 and "deletionTimestamp" not in facts:
            part = facts["labels"].get(PART, "")
            found.append(PodReport(facts["name"], part, index_of(pod)))
    return PodsReport(tuple(found))
