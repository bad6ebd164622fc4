"""Hands a run to Slurm, once for each submission. Standard library only.

What Slurm has is noted part by part. Where that was cut off, the job of a part is found by
the mark in its comment, or by the trace that it leaves in the run's folder when it starts.
"""

from __future__ import annotations

import re
import shutil
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from fairway_agent import control, predecessors, record, run_files
from fairway_agent.setup import has_setup
from fairway_agent.shared import plans, preparing, submissions
from fairway_agent.shared.reports import SubmitReport
from fairway_agent.slurm import partition, sbatch
from fairway_agent.slurm.jobs import ENDED, jobs_named
from fairway_agent.slurm.reconcile import reconcile_all
from fairway_agent.slurm.reports import SubmitRequest
from fairway_boot.faults import Fault
from fairway_boot.slurm import commands

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from fairway_agent.control import Part
    from fairway_agent.plan import RunPlan
    from fairway_agent.shared.submissions import Submission
    from fairway_agent.slurm.jobs import Element
    from fairway_agent.slurm.sbatch import Resources

# Seconds in which a job that is cancelled has to have ended: Slurm kills what does not end itself
# after its KillWait, which is 30 by default. And those between two looks.
_LONGEST_END = 120.0
_PAUSE = 0.5

_REFUSED = {
    "Requested node configuration is not available": "does the partition have such nodes?",
    "More processors requested than permitted": "does the partition have that many such nodes?",
    "Node count specification invalid": "does the partition have that many nodes?",
    "Invalid job array specification": "the scheduler's arrays are shorter: see MaxArraySize in "
    "slurm.conf, or give the sweep fewer points",
    "Requested time limit is invalid": "the partition ends jobs earlier: set a shorter timeout, "
    "or fewer retries",
    "Invalid account": "set SBATCH_ACCOUNT in your profile on the login host",
    "Invalid qos": "set SBATCH_QOS in your profile on the login host",
}

REQUEST = SubmitRequest


def answer(shared: Path, request: SubmitRequest, _: object) -> SubmitReport:
    """Submits the run for the time of that number, unless that is done.

    Fault where Slurm refuses it: then nothing of it is left there.
    """
    folder, number = shared / "runs" / request.run, request.submission
    with record.alone(folder / control.SUBMIT_LOCK):
        known = submissions.read(folder)
        if known is None or known.submission < number:
            known = _prepare(shared, folder, request)
        if known.submission == number and not known.complete:
            known = _submit(folder, known, request)
    if run_files.read_plan(folder).notify is not None:
        # It may have to wait, or have ended already. Slurm has it: where it does not answer now,
        # the next look tells it.
        with suppress(commands.Refused, Fault, OSError):
            reconcile_all([folder])
    return SubmitReport(tuple(part.job for part in known.parts if part.job))


def _prepare(shared: Path, folder: Path, request: SubmitRequest) -> Submission:
    """Makes the run's folder ready for this submission, and notes what is to be submitted."""
    parts = preparing.prepare(shared, folder, request.submission, request.code)
    new = submissions.Submission(request.submission, parts, complete=False)
    new.write(folder)
    return new


def _submit(folder: Path, wanted: Submission, request: SubmitRequest) -> Submission:
    plan = plans.read(folder, retry=wanted.submission > 0)
    resources = partition.resources(request)
    try:
        before = _dependency_on_runs(folder.parent, plan)
    except Fault:
        if not wanted.submission or not predecessors.decide(folder, plan, wanted.submission):
            raise
        return _completed(folder, wanted)  # a retry that begins nothing has ended, and says why
    try:
        _hand_over(folder, wanted, plan, resources, before)
    except commands.Refused as refused:
        _withdraw(folder, wanted)
        raise _refusal(str(refused)) from None
    return _completed(folder, wanted)


def _hand_over(
    folder: Path, wanted: Submission, plan: RunPlan, resources: Resources, before: str
) -> None:
    """Submits those parts that Slurm does not have, and notes each; one that is not noted is found
    again."""
    listed = jobs_named([folder.name])
    for position, part in enumerate(wanted.parts):
        if part.job:
            continue
        dependency = _dependency(wanted, part, plan, before)
        words = sbatch.arguments(
            *(folder, part, wanted.submission, plan, resources, dependency),
            has_setup=has_setup(folder),
        )
        job = _found(folder, part, wanted.submission, resources.partition, listed)
        if not job:
            script = folder / f"batch-{part.number}.sh"
            script.write_text(sbatch.script(folder, part, wanted.submission))
            job = commands.run([*words, str(script)]).strip().partition(";")[0]
        wanted.parts[position] = replace(part, job=job, part=resources.part_of(part.wanted))
        wanted.write(folder)


def _completed(folder: Path, wanted: Submission) -> Submission:
    done = replace(wanted, complete=True)
    done.write(folder)
    return done


def _dependency(wanted: Submission, part: Part, plan: RunPlan, before: str) -> str:
    """The runs that this one comes after, and other tasks of it, for which a part waits. Where one
    of those runs fails, Slurm ends the tasks, and what waited for their end alone would begin."""
    own = [each.job for each in wanted.parts if each.stage == "tasks" and each.job]
    if part.stage != "finally":
        # Each array keeps the limit for itself alone, so that one comes after the other.
        own = own[-1:] if plan.max_parallel else []
    return ",".join(filter(None, [before, f"afterany:{':'.join(own)}" if own else ""]))


def _found(
    folder: Path, part: Part, submission: int, partition: str, listed: Iterable[Element]
) -> str:
    """The job that an earlier try has submitted for this part, of those `listed` of the run; ""
    where there is none."""
    here = set(partition.split(","))
    comment = part.comment(folder.name, submission)
    for element in listed:
        # The run may have left another partition, where its job is about to end, or has ended; one
        # of this try that began has left its trace.
        is_here = bool(here & set(element.partition.split(",")))
        if element.comment == comment and is_here and element.state not in ENDED:
            return element.job
    trace = folder / "jobs" / f"{part.stage}-{part.number}-{submission}"
    return trace.read_text(encoding="ascii").strip() if trace.exists() else ""


def _withdraw(folder: Path, wanted: Submission) -> None:
    """Takes back what Slurm has accepted of a run of which it has refused another part, and sees
    that it has ended: the run may go elsewhere next."""
    jobs = [part.job for part in wanted.parts if part.job]
    if jobs:
        commands.run(["scancel", *jobs])
        _await_end(folder.name, jobs)
    submissions.forget(folder, wanted.submission)
    if wanted.submission == 0:
        shutil.rmtree(folder)


def _dependency_on_runs(runs: Path, plan: RunPlan) -> str:
    """That the jobs of the runs that it comes after must succeed, or end where something else is
    wanted of them, which its own job looks at; "" where all of them have.

    Fault where one has ended otherwise than is wanted, or is there no more.
    """
    folders = [runs / Path(each).name for each in plan.after]
    reconcile_all(folders)
    jobs: dict[str, list[str]] = {"afterok": [], "afterany": []}
    for folder in preparing.require_predecessors(folders, plan.conditions):
        if (known := submissions.read(folder)) is not None:
            kind = "afterany" if folder.name in plan.conditions else "afterok"
            jobs[kind] += [part.job for part in known.parts if part.job]
    return ",".join(f"{kind}:{':'.join(found)}" for kind, found in jobs.items() if found)


def _await_end(run: str, jobs: Collection[str]) -> None:
    end = time.monotonic() + _LONGEST_END
    while going := [
        each.id for each in jobs_named([run]) if each.job in jobs and each.state not in ENDED
    ]:
        if time.monotonic() > end:
            text = "Slurm refuses a part of the run, and another that was cancelled has not ended"
            hint = f"once it has ended (squeue -j {going[0]}): fairway submit --resume {run}"
            raise Fault("not-cancelled", f"{text}: {going[0]}", hint, 5)
        time.sleep(_PAUSE)


def _refusal(said: str) -> Fault:
    text = re.sub(r"^sbatch: (error: )?", "", said, flags=re.MULTILINE).strip()
    last = text.splitlines()[-1] if text else "it gave no reason"
    hints = (hint for key, hint in _REFUSED.items() if key in text)
    return Fault("refused-job", f"Slurm refuses the job: {last}", next(hints, ""), 2)
