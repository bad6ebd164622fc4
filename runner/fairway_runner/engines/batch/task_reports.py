"""Reports that tasks write about themselves: how they ended, and their share of a node.

The service knows an exit code. Each report is read once for an attempt, from the task's node or
from storage, and completes what the service says.
"""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from fairway_agent.batch.notifications import FILE, Ending
from fairway_agent.limits import Over
from fairway_agent.records import Unfit
from fairway_agent.resources import SHARE_FILE, Lent, ranges
from fairway_agent.spec import WARN
from fairway_agent.state_files import IO_ERROR
from fairway_boot.files import read_json
from fairway_runner.engines.batch import names
from fairway_runner.engines.batch.client import CONCURRENCY
from fairway_runner.engines.batch.request_builder import reports_endings
from fairway_runner.runs.records import known_state, read_plan

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from fairway_agent.state_files import TaskState
    from fairway_runner.engines.batch.task_files import TaskFiles

    Report = TypeVar("Report")

_FROM_TASK = ("state", "exit_code", "reason", "held", "ends", "timed_out")


def add_shares(files: TaskFiles, found: dict[int, TaskState]) -> None:
    """Notes which GPUs and cores tasks have that have begun, where that is not known yet."""
    job = read_json(files.run.folder / "job.json")
    if job.get("gpus") is None and job.get("cores") is None:
        return
    new = {
        number: status
        for number, status in found.items()
        if status.started and status.state != "queued" and status.part is None
    }
    for number, lent in _read(files, f"wd/logs/{SHARE_FILE}", new, Lent.from_json).items():
        status = found[number]
        if lent.attempt >= status.attempts - 1:  # not of an attempt before, in the same folder
            gpus, cores = ranges(lent.gpus), ranges(lent.cores)
            found[number] = replace(status, gpus=gpus, cores=cores, part=lent.part)


def add_endings(files: TaskFiles, submission: int, found: dict[int, TaskState]) -> Over | None:
    """Completes the states of tasks that have ended; the limit that the run was over, if any."""
    run = files.run
    plan = read_plan(run.folder)
    reported = reports_endings(plan)
    warns = plan.idle_gpu is not None and plan.idle_gpu.then == WARN
    new = {
        number: status
        for number, status in found.items()
        # One whose outputs were not kept says which, for as long as its node is there.
        if (reported or status.exit_code == IO_ERROR)
        and (
            status.exit_code is not None if status.is_final else warns and status.state == "running"
        )
    }
    folder = names.endings_folder(run.id, submission)
    over = None
    for number, ending in _read(files, f"wd/logs/{FILE}", new, Ending.from_json, folder).items():
        known_to_batch = found[number]
        if (ending.job, ending.task) != (files.job_id, run.task_name(number)):
            continue
        if (status := completed(known_to_batch, ending)) is known_to_batch:
            continue
        found[number] = status
        if ending.limit is not None and status.is_final:
            over = over or Over(ending.limit, ending.why or ending.limit)
    state = known_state(run.folder)
    if over is None and state is not None and state.limit is not None:  # it was found before
        return Over(state.limit, state.reason or state.limit)
    return over


def completed(status: TaskState, ending: Ending) -> TaskState:
    """The service's state with the task's own report, unless that is of another exit code."""
    own = ending.state
    if own.state == status.state == "running" and own.attempt == status.attempt:
        return replace(status, reason=own.reason)
    if own.exit_code != status.exit_code or not own.is_final:
        return status
    facts = {name: getattr(own, name) for name in _FROM_TASK}
    facts["reason"] = own.reason or status.reason
    attempt = status.attempt if own.attempt is None else own.attempt
    return replace(status, **facts, attempt=attempt)


def _read(
    files: TaskFiles,
    name: str,
    tasks: Mapping[int, TaskState],
    from_json: Callable[[object], Report],
    stored: str = "",
) -> dict[int, Report]:
    """The reports in a file of these tasks, by their numbers; `stored` is the folder in storage
    that has those of tasks that have ended. Whatever our own program did not write is none."""

    def read(number: int) -> Report | None:
        blob = f"{stored}{files.run.task_name(number)}/{FILE}" if stored else ""
        data = files.read(number, name, ended=tasks[number].is_final, blob=blob)
        try:
            return from_json(json.loads(data or b""))
        except (ValueError, RecursionError, Unfit):
            return None

    with ThreadPoolExecutor(CONCURRENCY) as pool:
        found = zip(tasks, pool.map(read, tasks), strict=True)
        return {number: report for number, report in found if report is not None}
