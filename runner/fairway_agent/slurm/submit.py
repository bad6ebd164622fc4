"""Submits a run to Slurm, once for each submission.

Each job is recorded part by part. After an interruption, the job of a part is found by the mark in
its comment, or by the trace that it leaves in the run's folder when it starts.
"""

from __future__ import annotations

import math
import re
import shlex
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from fairway_agent import control, dependencies, job_facts, limits, processes
from fairway_agent.prepare import has_setup
from fairway_agent.resources import ResourceRequest, ranges
from fairway_agent.shared import runs
from fairway_agent.shared.reports import SubmitReport, SubmitRequest
from fairway_agent.slurm.jobs import ENDED, jobs_named
from fairway_agent.slurm.nodes import partition_resources
from fairway_agent.slurm.runs import await_end, reconcile_all
from fairway_boot import files
from fairway_boot.files import AgentError
from fairway_boot.slurm import commands

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from fairway_agent.control import Part
    from fairway_agent.slurm.jobs import SlurmJob
    from fairway_agent.slurm.nodes import Resources
    from fairway_agent.spec import RunPlan

# Seconds beyond a task's own time limit: what remains when Slurm signals it (up to a minute early),
# and the maximum for preparing its nodes, if there is anything to prepare.
_NOTICE = 60
_SLACK = 300
_PREPARATION = 3600

# Limits of sbatch: a signal at most 65,535 seconds before the end (see --signal in its manual), and
# an int's seconds as the time limit. The task itself enforces the times in the plan.
_EARLIEST_NOTICE = 65_535
_LONGEST_LIMIT = 10 * 365 * 24 * 60  # minutes

_SCRIPT = """\
#!/bin/bash
python={python}
[[ -x $python ]] || python=python3
exec "$python" {options} {bundle} fairway_agent.slurm.job {words}
"""


def batch_script(folder: Path, part: Part, submission: int) -> str:
    """Returns the batch script, which only starts Fairway's own files in the shared folder."""
    words = [str(folder), part.stage, str(submission), str(part.number)]
    if not part.is_array:
        words.append(str(part.indices[0]))
    return _SCRIPT.format(
        python=shlex.quote(sys.executable or "python3"),
        options=shlex.join([*processes.BYTECODE, "-s"]),
        bundle=shlex.quote(str(processes.BUNDLE)),
        words=shlex.join(words),
    )


def arguments(
    folder: Path, part: Part, submission: int, plan: RunPlan, resources: Resources, dependency: str
) -> list[str]:
    """Returns sbatch's command line. Raises AgentError if a node has too few GPUs for a task."""
    asked, node, wanted = resources.asked, resources.node, part.wanted
    if wanted is None:
        of_node = ["--exclusive", "--mem=0"]
    else:  # memory in proportion to CPUs
        cpus = resources.cpus_of(wanted)
        memory = max(1, node.memory * cpus // node.cpus)
        of_node = [f"--cpus-per-task={cpus}", f"--mem={memory}M"]
        if (wanted.gpus or 0) > node.gpus:
            message = (
                f"a task needs {wanted}, and Slurm knows of {ResourceRequest(node.gpus)} a node in "
            )
            message += f"the partition `{asked.partition}`"
            hint = "see `sinfo -o %G`; GPUs are named in Slurm's gres.conf"
            raise AgentError("no-share", message, hint, 2)
    words = [
        "sbatch",
        "--parsable",
        f"--job-name={plan.run}",
        f"--comment={part.comment(folder, submission)}",
        f"--partition={asked.partition}",
        f"--nodes={part.nodes}",
        # A task with a part of a node is one of Slurm's tasks, for which Slurm sets exact CPUs.
        f"--ntasks-per-node={1 if wanted else part.width}",
        *of_node,
        # The script starts once all nodes are up; a lost node costs an attempt.
        *("--wait-all-nodes=1", "--requeue"),
        f"--signal=B:USR1@{min(math.ceil(plan.grace) + _NOTICE, _EARLIEST_NOTICE)}",
        f"--nice={asked.nice}",
        f"--chdir={folder}",
        f"--output={str(folder).replace('%', '%%')}/slurm.txt",  # % begins a replacement
        "--open-mode=append",
    ]
    if part.width > resources.cpus and not wanted:
        words.append("--overcommit")
    if part.is_array:
        limit = f"%{plan.max_parallel}" if plan.max_parallel else ""
        words.append(f"--array={ranges(part.indices)}{limit}")
    longest = limits.scheduler_limit(plan, _PREPARATION * (has_setup(folder) or bool(plan.staged)))
    if longest is not None:
        minutes = math.ceil((longest + _NOTICE + _SLACK) / 60)
        words.append(f"--time={min(minutes, _LONGEST_LIMIT)}")
    gpus = wanted.gpus if wanted else resources.gpus
    named = {"constraint": resources.feature, "gres": f"gpu:{gpus}" if gpus else ""}
    named |= {"account": asked.account, "qos": asked.qos}
    words += [f"--{name}={value}" for name, value in named.items() if value]
    if dependency:
        words += [f"--dependency={dependency}", "--kill-on-invalid-dep=yes"]
    return words


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


def submit(shared: Path, request: SubmitRequest, _: object) -> SubmitReport:
    """Makes the run's submission of that number, unless that is done. Raises AgentError if Slurm
    refuses it, or it can never start: then nothing of it is left there, unless jobs of an earlier
    try are."""
    folder, number = shared / "runs" / request.run, request.submission
    with files.hold_lock(folder / control.SUBMIT_LOCK):
        known = control.read(folder)
        if not known.parts or known.submission < number:
            parts = runs.prepare_parts(shared, folder, number, request.code)
            control.change(folder, number, parts=tuple(parts), complete=False)
            known = control.read(folder)
        if known.submission == number and not known.complete:
            runs.require_uncancelled(folder, known)
            listed = jobs_named([folder.name])
            where = request.partition
            has_begun = any(
                each.job or _found(folder, each, number, where, listed) for each in known.parts
            )
            try:
                _submit_parts(folder, number, request, listed)
            except AgentError as fault:
                if fault.record["exit_code"] != 2:
                    raise
                if has_begun:
                    raise runs.stuck(folder, fault) from None
                _withdraw(folder, number, fault)
                raise
            control.change(folder, number, complete=True)
    if job_facts.read_plan(folder).notify is not None:
        # The run may have to wait, or may have ended already. Slurm has it: if it does not answer
        # now, the next poll notifies users.
        with suppress(commands.CommandFailed, AgentError, OSError):
            reconcile_all([folder])
    return SubmitReport(tuple(control.read(folder).jobs))


def _submit_parts(
    folder: Path, number: int, request: SubmitRequest, listed: Sequence[SlurmJob]
) -> None:
    """Submits the parts that Slurm does not have, and records each; an unrecorded one is found
    again."""
    if all(part.job for part in control.read(folder).parts):
        return  # an earlier try was interrupted after the last one
    plan = job_facts.read_shared_plan(folder, retry=number > 0)
    resources = partition_resources(request)
    try:
        before = _dependency_on_runs(folder.parent, plan)
    except AgentError:
        if not number or not dependencies.evaluate(folder, plan, number):
            raise
        return  # a retry that starts nothing has ended with a reason
    try:
        for part in control.read(folder).parts:
            if part.job:
                continue
            # If a predecessor fails, Slurm cancels the tasks, and a part that waits only for their
            # end would start.
            known = control.read(folder).parts
            own = [each.job for each in known if each.stage == "tasks" and each.job]
            if part.stage != "finally":
                # Each array enforces only its own limit, so the arrays run one after another.
                own = own[-1:] if plan.max_parallel else []
            after = ",".join(filter(None, [before, f"afterany:{':'.join(own)}" if own else ""]))
            words = arguments(folder, part, number, plan, resources, after)
            job = _found(folder, part, number, request.partition, listed)
            if not job:
                script = folder / f"batch-{part.number}.sh"
                script.write_text(batch_script(folder, part, number))
                job = commands.run([*words, str(script)]).strip().partition(";")[0]
            new = replace(part, job=job, node_fraction=resources.node_fraction_of(part.wanted))
            control.note_part(folder, number, new)
    except commands.CommandFailed as refused:
        text = re.sub(r"^sbatch: (error: )?", "", str(refused), flags=re.MULTILINE).strip()
        last = text.splitlines()[-1] if text else "it gave no reason"
        hint = next((hint for key, hint in _REFUSED.items() if key in text), "")
        raise AgentError("refused-job", f"Slurm refuses the job: {last}", hint, 2) from None


def _withdraw(folder: Path, number: int, why: AgentError) -> None:
    """Forgets a refused submission, whose accepted jobs must have ended: the run may be submitted
    elsewhere next."""
    if jobs := control.read(folder).jobs:
        commands.run(["scancel", *jobs])
        what = "Slurm refuses a part of the run, and another that was cancelled has not ended"
        await_end(folder.name, jobs, what, f"fairway cancel {folder.name}")
    runs.forget(folder, number, why)


def _found(
    folder: Path, part: Part, number: int, partition: str, listed: Iterable[SlurmJob]
) -> str:
    """Returns the `listed` job that an earlier try submitted for this part; "" for none."""
    here = set(partition.split(","))
    comment = part.comment(folder, number)
    for element in listed:
        # The run may have left another partition, where its job is about to end, or has ended; a
        # job of this submission that has started left a trace.
        is_here = bool(here & set(element.partition.split(",")))
        if element.comment == comment and is_here and element.state not in ENDED:
            return element.job
    trace = folder / "jobs" / f"{part.stage}-{part.number}-{number}"
    return trace.read_text(encoding="ascii").strip() if trace.exists() else ""


def _dependency_on_runs(runs: Path, plan: RunPlan) -> str:
    """Returns the dependency on the upstream runs' jobs; "" if all have ended. Raises AgentError if
    one has not ended as required, or no longer exists. The run's own job checks conditions other
    than success."""
    folders = [runs / Path(each).name for each in plan.after]
    reconcile_all(folders)
    jobs: dict[str, list[str]] = {"afterok": [], "afterany": []}
    for folder in dependencies.require(folders, plan.conditions):
        kind = "afterany" if folder.name in plan.conditions else "afterok"
        jobs[kind] += control.read(folder).jobs
    return ",".join(f"{kind}:{':'.join(found)}" for kind, found in jobs.items() if found)
