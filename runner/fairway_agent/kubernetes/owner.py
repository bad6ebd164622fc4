"""Whose the Jobs of a run's name are: two shared folders may each have a run of that id, and what
is deleted is there for a while. Standard library only."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from fairway_agent.kubernetes import names
from fairway_agent.kubernetes.api import BATCH
from fairway_agent.kubernetes.settings import pods_of
from fairway_boot.faults import Fault

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from fairway_agent.kubernetes.api import Api
    from fairway_agent.kubernetes.objects import Object

# Seconds for which a Job's end is waited for, and between two looks.
PATIENCE = 60.0
_PAUSE = 0.5


class Taken(Fault):
    """A run of another shared folder has the names of this one."""

    def __init__(self, folder: Path) -> None:
        run = folder.name
        text = f"this namespace has Jobs of a run {run} with another shared folder"
        label = f"{names.RUN}={names.label(run)}"
        hint = f"choose another --run-id; what has this one: kubectl get jobs -l {label}"
        super().__init__("taken-id", text, hint, 2)


def selector(run: str) -> dict[str, str]:
    """What lists the objects with a run's name."""
    return {"labelSelector": f"{names.RUN}={names.label(run)}"}


def jobs(api: Api, folder: Path) -> Sequence[Object]:
    """Those of the run in this folder."""
    return [each for each in api.list(BATCH, "jobs", selector(folder.name)) if owns(folder, each)]


def owns(folder: Path, found: Object) -> bool:
    """Whether a Job or a pod is of the run in this folder: its programs look for it there, on the
    same claims. What of a run that is gone cannot be known is not."""
    spec = found["spec"].get("template", found)["spec"]
    words = [word for each in spec.get("containers") or () for word in each.get("command") or ()]
    if str(folder) not in words:
        return False
    pods = pods_of(folder)
    if pods is None:
        return False
    volumes = spec.get("volumes") or ()
    claims = {each.get("persistentVolumeClaim", {}).get("claimName") for each in volumes}
    return set(pods.volumes.values()) == claims - {None}


def require(api: Api, folder: Path) -> Sequence[Object]:
    """The Jobs of the run; Taken where a run of another folder has some that are called so."""
    found = api.list(BATCH, "jobs", selector(folder.name))
    if not all(owns(folder, each) for each in found):
        raise Taken(folder)
    return found


def make(api: Api, folder: Path, manifest: dict[str, Any]) -> None:
    """Makes a Job of the run, unless it is there; the end of one that is being deleted is waited
    for. Fault where that lasts, and Taken where it is somebody else's."""
    end, name = time.monotonic() + PATIENCE, manifest["metadata"]["name"]
    while not api.create(BATCH, "jobs", manifest):
        there = api.get(BATCH, "jobs", name)
        if there is not None and not owns(folder, there):
            raise Taken(folder)
        if there is not None and "deletionTimestamp" not in there["metadata"]:
            return
        if time.monotonic() >= end:
            raise _lasting(folder, name, there)
        time.sleep(_PAUSE)


def _lasting(folder: Path, name: str, there: Object | None) -> Fault:
    if there is None:
        # As where somebody else changes the same quota again and again.
        text = (
            f"the API server of Kubernetes could not create the Job {name}, because of a "
            "conflict with another"
        )
        return Fault("ending-job", text, "try again; if it persists: kubectl describe quota")
    label = f"{names.RUN}={names.label(folder.name)}"
    text = f"the deleted Job {name} still exists: its pods have their grace period"
    return Fault("ending-job", text, f"try again when they are gone: kubectl get pods -l {label}")
