"""Submits a run to Kubernetes, once for each submission.

The names of its objects follow from the run, its submission and the part, so that submitting it
again creates no second one.
"""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairway_agent import control, dependencies, job_facts, processes
from fairway_agent.kubernetes import manifests, settings
from fairway_agent.kubernetes.api import (
    CONTROLLER,
    FORBIDDEN,
    RIGHTS,
    RUN,
    SUBMISSION,
    Api,
    RequestRefused,
    job_name,
    run_label,
    suppressed,
)
from fairway_agent.kubernetes.manifests import QUEUE
from fairway_agent.kubernetes.objects import jobs_of, owns, selector
from fairway_agent.kubernetes.runs import reconcile_all
from fairway_agent.kubernetes.settings import parse
from fairway_agent.shared import runs
from fairway_agent.shared.reports import SubmitReport, SubmitRequest
from fairway_boot import files
from fairway_boot.files import AgentError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from fractions import Fraction

    from fairway_agent.control import Control, Part
    from fairway_agent.kubernetes.objects import Object


# Seconds to wait for a Job's end, and between two polls.
PATIENCE = 60.0
_PAUSE = 0.5


class RunIdConflict(AgentError):
    """Error for names that belong to a run of another shared folder."""

    def __init__(self, folder: Path) -> None:
        run = folder.name
        text = f"this namespace has Jobs of a run {run} with another shared folder"
        label = f"{RUN}={run_label(run)}"
        hint = f"choose another ID; what has this one: kubectl get jobs -l {label}"
        super().__init__("taken-run-id", text, hint, 2)


def make(api: Api, folder: Path, name: str) -> None:
    """Creates a Job of the run, unless it exists; waits for the end of one that is being deleted.
    Raises AgentError if that takes too long, and RunIdConflict if it is somebody else's."""
    end, manifest = time.monotonic() + PATIENCE, _manifest(folder, name)
    while not api.create("jobs", manifest):
        there = api.get("jobs", name)
        if there is not None and not owns(folder, there):
            raise RunIdConflict(folder)
        if there is not None and "deletionTimestamp" not in there["metadata"]:
            return
        if time.monotonic() >= end:
            label = f"{RUN}={run_label(folder.name)}"
            text = f"the deleted Job {name} still exists: its pods have their grace period"
            hint = f"try again when they are gone: kubectl get pods -l {label}"
            if there is None:  # for example, somebody else keeps changing the same quota
                text = f"the API server of Kubernetes could not create the Job {name}, because of "
                text += "a conflict with another"
                hint = "try again; if it persists: kubectl describe quota"
            raise AgentError("ending-job", text, hint)
        time.sleep(_PAUSE)


TOO_MUCH = "more than the queue"
NO_CLASS = "no WorkloadPriorityClass"
_UNFIT = 422


def require_quota(found: Object, job: Mapping[str, Any]) -> None:
    """Raises RequestRefused if a Job asks for more than its queue has when nothing else runs: it
    would wait there for ever. `found` is the ClusterQueue with its quota."""
    queue, spec = job["metadata"]["labels"][QUEUE], job["spec"]
    count = min(spec["parallelism"], spec["completions"])
    [container] = spec["template"]["spec"]["containers"]
    wanted: dict[str, str] = (container.get("resources") or {}).get("requests") or {}
    for name, text in wanted.items():
        most = _most(found, name)
        if most is not None and count * parse(text) > most:
            pods = "1 pod asks" if count == 1 else f"{count} pods that start together ask"
            message = (
                f"{pods} for {TOO_MUCH} {queue} ever has: {text} {name} each, of {_text(most)}"
            )
            raise RequestRefused(_UNFIT, message)


def _most(queue: Object, resource: str) -> Fraction | None:
    """Returns the largest limit of a resource among a queue's flavors, with what they may borrow;
    None for no limit, or a resource that is not counted."""
    spec = queue["spec"]
    in_cohort = bool(spec.get("cohortName") or spec.get("cohort"))
    amounts = []
    for group in spec.get("resourceGroups") or ():
        for flavor in group["flavors"]:
            for quota in flavor["resources"]:
                if quota["name"] != resource:
                    continue
                more = quota.get("borrowingLimit") if in_cohort else "0"
                if more is None:
                    return None
                amounts.append(parse(quota["nominalQuota"]) + parse(more))
    return max(amounts, default=None)


def _text(amount: Fraction) -> str:
    for unit in ("Ti", "Gi", "Mi"):
        if amount >= parse(f"1{unit}") and amount % parse(f"1{unit}") == 0:
            return f"{amount / parse(f'1{unit}')}{unit}"
    return f"{float(amount):g}"


OBJECTS = "objects"  # folder of a run: the manifests of its Jobs, by name
KEY = "fairway_key"  # file: the key with which the pods of a task reach each other

_REFUSED = {
    TOO_MUCH: "ask for fewer nodes, or for fewer tasks at a time with `max_parallel`: "
    "kubectl get clusterqueues",
    NO_CLASS: "see: kubectl get workloadpriorityclasses; or change `priorities:`",
    "no queue": "see: kubectl get localqueues; or leave `queue:` out of the target",
    "exceeded quota": "ask who runs the cluster for a larger quota: kubectl describe quota",
    "forbidden": RIGHTS,
}


def submit(shared: Path, request: SubmitRequest, _: object) -> SubmitReport:
    """Makes the run's submission of that number, unless that is done. Raises AgentError if the API
    server refuses it: then nothing of it is left there, unless Jobs of an earlier try are."""
    folder, number = shared / "runs" / request.run, request.submission
    api = Api()
    with files.hold_lock(folder / control.SUBMIT_LOCK):
        known = control.read(folder)
        if is_new := not known.parts or known.submission < number:
            parts = tuple(
                replace(
                    part, node_fraction=settings.node_fraction_of(request.resources, part.wanted)
                )
                for part in runs.prepare_parts(shared, folder, number, request.code, alone=True)
            )
            known = replace(known.of(number), parts=parts)
            _write_objects(folder, known, request)
            remains = api.list("jobs", selector(folder.name))
            if not all(owns(folder, each) for each in remains):
                conflict = RunIdConflict(folder)
                runs.forget(folder, number, conflict)
                raise conflict
            _delete(api, remains, known)  # leftovers of a run whose folder was removed by hand
            control.change(folder, number, parts=parts, complete=False)
        if known.submission == number and not known.complete:
            runs.require_uncancelled(folder, known)
            _submit_parts(api, folder, known, is_new=is_new)
            control.change(folder, number, complete=True)
    return SubmitReport(tuple(control.read(folder).jobs))


def _write_objects(folder: Path, wanted: Control, request: SubmitRequest) -> None:
    """Writes the manifests for the controller, which creates them when they are due."""
    plan = job_facts.read_shared_plan(folder, retry=wanted.submission > 0)
    found = settings.of_run(folder, request.resources, request.topology)
    if request.key:
        path = folder / KEY
        path.unlink(missing_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(request.key)
    objects = folder / OBJECTS
    objects.mkdir(exist_ok=True)
    for part in wanted.parts:  # pods find everything else in the shared folder
        words = _program("pod", str(folder), part.stage, str(wanted.submission), str(part.number))
        manifest = manifests.part_job(folder.name, wanted.submission, part, plan, found, words)
        files.write_json(objects / f"{manifest['metadata']['name']}.json", manifest)
    words = _program("controller", str(folder), str(wanted.submission))
    controller = manifests.controller_job(folder.name, wanted.submission, found, words)
    files.write_json(objects / f"{controller['metadata']['name']}.json", controller)


def _program(module: str, *words: str) -> list[str]:
    return ["python3", "-s", str(processes.BUNDLE), f"fairway_agent.kubernetes.{module}", *words]


def _submit_parts(api: Api, folder: Path, wanted: Control, *, is_new: bool) -> None:
    plan = job_facts.read_shared_plan(folder, retry=wanted.submission > 0)
    # The controller creates parts that wait for other runs; and all parts if their order matters.
    waits = plan.after or (plan.max_parallel is not None and len(wanted.parts) > 1)
    controller = job_name(folder.name, wanted.submission, CONTROLLER)
    jobs = [] if is_new else jobs_of(api, folder)
    begun = [job["metadata"] for job in jobs if _is_of(job, wanted)]
    if any(job["name"] == controller and "deletionTimestamp" not in job for job in begun):
        return  # an earlier try was interrupted after this, its last one
    # A Job that has ended may be gone by now.
    has_begun = bool(begun) or any(part.job for part in wanted.parts)
    # A retry that starts nothing ends by itself, with a reason; what has begun was allowed to.
    folders = [] if wanted.submission or has_begun else [Path(each) for each in plan.after]
    reconcile_all(api, folders)
    try:
        dependencies.require(folders, plan.conditions)
        _require_quota(api, folder, wanted)
        for part in () if waits else wanted.parts:
            if part.stage == "tasks":
                create(api, folder, wanted.submission, part)
        make(api, folder, controller)
    except AgentError as fault:
        is_refused = isinstance(fault, RequestRefused)
        if not is_refused and fault.record["exit_code"] != 2:
            raise
        if has_begun:
            raise runs.stuck(folder, fault) from None
        _delete(api, jobs_of(api, folder), wanted)
        runs.forget(folder, wanted.submission, fault)
        if not is_refused:
            raise
        text = " ".join(str(fault).split())
        hint = next((hint for key, hint in _REFUSED.items() if key in text), "")
        raise AgentError("refused-job", f"Kubernetes refuses the job: {text}", hint, 2) from None


def create(api: Api, folder: Path, submission: int, part: Part) -> None:
    """Creates the Job of a part, unless it exists, and records that."""
    if not part.job:
        name = job_name(folder.name, submission, part.number)
        make(api, folder, name)
        control.note_part(folder, submission, replace(part, job=name))


def _manifest(folder: Path, name: str) -> manifests.Manifest:
    found: manifests.Manifest = files.read_json(folder / OBJECTS / f"{name}.json")
    return found


def _require_quota(api: Api, folder: Path, wanted: Control) -> None:
    """Raises RequestRefused if a part, due now or later, would wait in its queue for ever."""
    names = [job_name(folder.name, wanted.submission, part.number) for part in wanted.parts]
    jobs = [_manifest(folder, name) for name in names]
    labels = jobs[0]["metadata"]["labels"] if jobs else {}
    if not (queue := labels.get(QUEUE)):  # all parts have the same
        return
    local = api.get("localqueues", queue) if api.kueue else None
    if local is None:
        raise RequestRefused(
            _UNFIT, f"the cluster has no queue {queue}, and nothing else starts the job"
        )
    # The head may lack these rights, if it was prepared earlier.
    with suppressed(FORBIDDEN):
        name, classes = labels.get(manifests.PRIORITY), "workloadpriorityclasses"
        if name and not api.get(classes, name):
            # Kueue would wait for the class forever.
            raise RequestRefused(_UNFIT, f"the cluster has {NO_CLASS} {name}")
    with suppressed(FORBIDDEN):
        name = local["spec"]["clusterQueue"]
        if found := api.get("clusterqueues", name):
            for job in jobs:
                require_quota(found, job)


def _delete(api: Api, jobs: Sequence[Object], wanted: Control) -> None:
    """Deletes the Jobs that have the names of this submission."""
    for job in jobs:
        if _is_of(job, wanted):
            api.delete("jobs", job["metadata"]["name"])


def _is_of(job: Object, wanted: Control) -> bool:
    return bool(job["metadata"]["labels"].get(SUBMISSION) == str(wanted.submission))
