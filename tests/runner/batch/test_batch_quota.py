"""A quota of jobs that is used up, by the run's own job too."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from fairway_core.findings import Finding
from fairway_runner.engines.azure.calls import ServiceError
from fairway_runner.engines.batch import names
from fairway_runner.engines.batch.submission import State, Submission
from fairway_runner.engines.outage import Unavailable

JOB = {"id": "job-a", "metadata": [{"name": names.PLAN, "value": "1"}]}


def _submission(job: dict[str, Any] | None) -> Submission:
    """To an account that takes no job, and has this one."""

    def create(_: object) -> None:
        quota = "ActiveJobAndScheduleQuotaReached"
        raise ServiceError(Finding("service", "no more jobs", ""), status=409, code=quota)

    calls = SimpleNamespace(deadline=600.0)
    account: Any = SimpleNamespace(create_job=create, find_job=lambda _: job, calls=calls)
    state = State("job-a", 0, tasks=1)
    run: Any = SimpleNamespace(id="job-a")
    storage: Any = None
    return Submission(run, account, storage, state)


def test_a_job_that_is_there_already_is_gone_on_with() -> None:
    """Its tasks may run: the run must not go to another target."""
    assert _submission(dict(JOB))._create_job(JOB) is False


def test_without_a_job_another_target_may_take_the_run() -> None:
    with pytest.raises(Unavailable, match="no more jobs"):
        _submission(None)._create_job(JOB)
