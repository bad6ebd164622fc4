"""How runs are called on the service: ids of jobs, names of blobs, keys of metadata."""

from __future__ import annotations

import hashlib
import re

_LONGEST = 64  # characters of a job's id

RUN = "fairway_run"
SUBMISSION = "fairway_submission"
PLAN = "fairway_plan"
SCHEDULE = "fairway_schedule"
"""Metadata of a job: the run's id, which time it runs (retries count), the digest of its plan,
and the schedule that made it, whose jobs have its name in place of a run's."""


def job_id(run: str, submission: int = 0) -> str:
    """The Batch job of a run: its id, and from the first retry on which time it runs.

    >>> job_id("digits-abcdef"), job_id("digits-abcdef", 2)
    ('digits-abcdef', 'digits-abcdef-again2')
    """
    ending = f"-again{submission}" if submission else ""
    if len(run) + len(ending) <= _LONGEST:
        return run + ending
    digest = hashlib.sha256(run.encode()).hexdigest()[:8]
    return f"{run[: _LONGEST - 9 - len(ending)]}-{digest}{ending}"


def run_of(job: str) -> str:
    """The run that a job belongs to, as far as its id says it.

    >>> run_of("digits-abcdef-again2"), run_of("nightly:job-7")
    ('digits-abcdef', 'nightly-7')
    """
    return re.sub(r"-again\d+$", "", scheduled_run(job))


def scheduled_run(job: str) -> str:
    """The run that a schedule's job is: the schedule's name, and which of its jobs."""
    return re.sub(r":job-(\d+)$", r"-\1", job)


def private_folder(run: str) -> str:
    """Where the run's key and its copied inputs lie, in the container `code`."""
    return f"runs/{run}/"


def record_blob(run: str) -> str:
    """The archive of the run's record, in the container `outputs`."""
    return f"{run}/record.tar.gz"


def endings_folder(run: str, submission: int) -> str:
    """Where the tasks of a run say how they have ended, in the container `outputs`."""
    return f"{run}/endings/{submission}/"


def task_folder(run: str, task: int | str) -> str:
    """Where a task's logs and outputs are kept, in the container `outputs`."""
    return f"{run}/{task}/"


def cancelled_folder(run: str, submission: int) -> str:
    """Has an empty blob for each task that a person has ended by itself, in `outputs`."""
    return f"{run}/cancelled/{submission}/"
