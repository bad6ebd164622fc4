"""Ends a job early, with the time that its programs have to save what they hold.

Batch kills what it terminates. So running tasks are told first, through the one way in that
the service gives: each has a file in its folder, and takes its removal for the order to end.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from fairway_runner.engines.batch import states
from fairway_runner.engines.batch.calls import ServiceError
from fairway_runner.engines.batch.client import CONCURRENCY

if TYPE_CHECKING:
    from fairway_runner.engines.batch.client import Account

_FILE = "wd/fairway.running"
_PAUSE = 0.3
_MARGIN = 15.0  # seconds beyond the grace, for the way there and for what is kept


def end_early(account: Account, job_id: str, grace: float) -> bool:
    """Ends the job; False where there is none. It is being terminated when this returns."""
    try:
        account.disable_job(job_id)
        _end_tasks(account, job_id, grace)
    except ServiceError as error:
        if error.is_missing:
            return False
        if not error.exists_already:  # it is ending by itself
            raise
    try:
        account.terminate_job(job_id, states.CANCELLED)
    except ServiceError as error:
        if not error.exists_already:
            raise
    return True


def _end_tasks(account: Account, job_id: str, grace: float) -> None:
    """Tells the running tasks, and waits until they have ended or their grace is over."""
    running = [
        str(task["id"])
        for task in account.tasks(job_id, ["id", "state"])
        if str(task["state"]).lower() == "running"
    ]

    def tell(task: str) -> bool:
        try:
            account.delete_task_file(job_id, task, _FILE)
        except ServiceError as error:
            if error.is_missing or error.exists_already:  # it has not begun, or its node is gone
                return False
            raise
        return True

    with ThreadPoolExecutor(CONCURRENCY) as pool:
        told = any(list(pool.map(tell, running)))
    end = time.monotonic() + grace + _MARGIN
    while told and time.monotonic() < end and account.task_counts(job_id)["running"]:
        time.sleep(_PAUSE)
