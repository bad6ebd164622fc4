"""`fairway render`: the script that a job would run."""

from __future__ import annotations

from fairway_cli.commands.arguments import JobArgument, SetOption, TargetOption
from fairway_runner.targets import LOCAL


def command(job: JobArgument, target: TargetOption = LOCAL, set_: SetOption = None) -> None:
    """Print the script that a job would run; nothing is started."""
    from fairway_runner.jobs.job_file import load_job
    from fairway_runner.jobs.rendering import render_launcher
    from fairway_runner.targets.lookup import find_target

    job_file, place = load_job(job, set_ or ()), find_target(target)
    print(render_launcher(job_file, job_file.resolve(place), place), end="")
