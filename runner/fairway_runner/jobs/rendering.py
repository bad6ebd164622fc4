"""The script of one job, as `fairway render` prints it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairway_runner.jobs.launcher import Launchers
from fairway_runner.jobs.unused_params import ParamUse

if TYPE_CHECKING:
    from fairway_core.target import Target
    from fairway_runner.jobs.job import Job
    from fairway_runner.jobs.job_file import JobFile


def render_launcher(job_file: JobFile, job: Job, target: Target) -> str:
    """The script of one job; see `Launchers.render`. UserError also for a parameter that is set
    and that nothing reads."""
    launchers = Launchers()
    ParamUse(job_file).require(job_file, launchers.of(job_file, job))
    return launchers.render(job_file, job, target)
