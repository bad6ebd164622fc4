"""Hands a run to Kubernetes, once for each submission. Standard library only.

The names of its objects follow from the run, its submission and the part: to submit it again
makes no second one.
"""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairway_agent import bundle, control, record
from fairway_agent.kubernetes import manifests, names, owner, quota, settings, shares
from fairway_agent.kubernetes.api import BATCH, RIGHTS, Api, Refused
from fairway_agent.kubernetes.reconcile import reconcile_all
from fairway_agent.kubernetes.reports import SubmitRequest
from fairway_agent.shared import plans, preparing, submissions
from fairway_agent.shared.reports import SubmitReport
from fairway_boot.faults import Fault

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fairway_agent.control import Part
    from fairway_agent.kubernetes.objects import Object
    from fairway_agent.kubernetes.settings import Settings
    from fairway_agent.plan import RunPlan
    from fairway_agent.shared.submissions import Submission

OBJECTS = "objects"  # in a run's folder: the manifests of its Jobs, each by its name
KEY = "fairway_key"  # by which the pods of a task reach each other

_REFUSED = {
    quota.TOO_MUCH: "ask for fewer nodes, or for fewer tasks at a time with `max_parallel`: "
    "kubectl get clusterqueues",
    quota.NO_CLASS: "see: kubectl get workloadpriorityclasses; or change `priorities:`",
    "no queue": "see: kubectl get localqueues; or leave `queue:` out of the target",
    "exceeded quota": "ask who runs the cluster for a larger quota: kubectl describe quota",
    "forbidden": RIGHTS,
}

REQUEST = SubmitRequest


def answer(shared: Path, request: SubmitRequest, _: object) -> SubmitReport:
    """Submits the run for the time of that number, unless that is done.

    Fault where the API server refuses it: then nothing of it is left there.
    """
    folder, number = shared / "runs" / request.run, request.submission
    api = Api()
    with record.alone(folder / control.SUBMIT_LOCK):
        known = submissions.read(folder)
        if known is None or known.submission < number:
            parts = preparing.prepare(shared, folder, number, request.code, alone=True)
            parts = [
                replace(part, part=shares.part_of(request.resources, part.wanted)) for part in parts
            ]
            known = submissions.Submission(number, parts, complete=False)
            _write_objects(folder, known, request)
            _require_names(api, folder, known)
            known.write(folder)
        if known.submission == number and not known.complete:
            known = _submit(api, folder, known)
    return SubmitReport(tuple(part.job for part in known.parts if part.job))


def _write_objects(folder: Path, wanted: Submission, request: SubmitRequest) -> None:
    """Writes down what is to be made, for the program that does so when it is due."""
    plan = plans.read(folder, retry=wanted.submission > 0)
    found = settings.of_run(folder, request.resources)
    if request.key:
        preparing.write_secret(folder / KEY, request.key)
    objects = folder / OBJECTS
    objects.mkdir(exist_ok=True)
    for part in wanted.parts:
        manifest = part_manifest(folder, wanted.submission, part, plan, found)
        record.write_json(objects / f"{manifest['metadata']['name']}.json", manifest)
    words = _program("controller", str(folder), str(wanted.submission))
    controller = manifests.controller_job(folder.name, wanted.submission, found, words)
    record.write_json(objects / f"{controller['metadata']['name']}.json", controller)


def part_manifest(
    folder: Path, submission: int, part: Part, plan: RunPlan, found: Settings
) -> manifests.Manifest:
    """The Job of a part, whose pods find all else in the shared folder."""
    words = _program("pod", str(folder), part.stage, str(submission), str(part.number))
    return manifests.part_job(folder.name, submission, part, plan, found, words)


def _program(module: str, *words: str) -> list[str]:
    return ["python3", "-s", str(bundle.here()), f"fairway_agent.kubernetes.{module}", *words]


def _submit(api: Api, folder: Path, wanted: Submission) -> Submission:
    plan = plans.read(folder, retry=wanted.submission > 0)
    if not wanted.submission:  # a retry that begins nothing ends by itself, and says why
        _require_predecessors(api, plan)
    # What waits for others is made by the controller; it makes all where the order matters.
    limited = plan.max_parallel is not None and len(wanted.parts) > 1
    waits = plan.after or limited
    at_once = [] if waits else [part for part in wanted.parts if part.stage == "tasks"]
    try:
        _require_quota(api, folder, wanted)
        for part in at_once:
            create(api, folder, wanted, part)
        _post(api, folder, names.job(folder.name, wanted.submission, names.CONTROLLER))
    except Refused as refused:
        _withdraw(api, folder, wanted)
        raise _refusal(refused) from None
    except owner.Taken:
        _withdraw(api, folder, wanted)
        raise
    done = replace(wanted, complete=True)
    done.write(folder)
    return done


def create(api: Api, folder: Path, wanted: Submission, part: Part) -> None:
    """Makes the Job of a part, unless it is there, and notes that."""
    name = names.job(folder.name, wanted.submission, part.number)
    if part.job:
        return
    _post(api, folder, name)
    wanted.parts[wanted.parts.index(part)] = replace(part, job=name)
    wanted.write(folder)


def _post(api: Api, folder: Path, name: str) -> None:
    owner.make(api, folder, _manifest(folder, name))


def _manifest(folder: Path, name: str) -> manifests.Manifest:
    found: manifests.Manifest = record.read_json(folder / OBJECTS / f"{name}.json")
    return found


def _require_predecessors(api: Api, plan: RunPlan) -> None:
    """Fault where a run that this one comes after has ended otherwise than it wants, or is gone."""
    folders = [Path(each) for each in plan.after]
    reconcile_all(api, folders)
    preparing.require_predecessors(folders, plan.conditions)


def _require_names(api: Api, folder: Path, wanted: Submission) -> None:
    """Taken where a run of another folder has the names, and then nothing is left of this one.
    Jobs of this folder are of a run that was removed by hand: they go."""
    try:
        remains = owner.require(api, folder)
    except owner.Taken:
        _forget(folder, wanted)
        raise
    _delete(api, remains, wanted)


def _require_quota(api: Api, folder: Path, wanted: Submission) -> None:
    """Refused where a part, of now or of later, would wait in its queue for ever."""
    queues: dict[str, Any] = {}
    for part in wanted.parts:
        job = _manifest(folder, names.job(folder.name, wanted.submission, part.number))
        if queue := job["metadata"]["labels"].get(manifests.QUEUE):
            if queue not in queues:
                queues[queue] = quota.cluster_queue(api, queue)
                if name := job["metadata"]["labels"].get(manifests.PRIORITY):
                    quota.require_class(api, name)
            quota.require(queues[queue], job)


def _withdraw(api: Api, folder: Path, wanted: Submission) -> None:
    """Takes back what was made of a run of which another part was refused."""
    _delete(api, owner.jobs(api, folder), wanted)
    _forget(folder, wanted)


def _delete(api: Api, jobs: Sequence[Object], wanted: Submission) -> None:
    """Deletes those that have the names of this submission."""
    for job in jobs:
        if job["metadata"]["labels"].get(names.SUBMISSION) == str(wanted.submission):
            api.delete(BATCH, "jobs", job["metadata"]["name"])


def _forget(folder: Path, wanted: Submission) -> None:
    submissions.forget(folder, wanted.submission)
    if wanted.submission == 0:
        shutil.rmtree(folder)


def _refusal(refused: Refused) -> Fault:
    text = " ".join(str(refused).split())
    hints = (hint for key, hint in _REFUSED.items() if key in text)
    return Fault("refused-job", f"Kubernetes refuses the job: {text}", next(hints, ""), 2)
