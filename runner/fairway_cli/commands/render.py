"""`fairway render`: the script that a job would run."""

from __future__ import annotations

from fairway_cli.commands.arguments import JobArgument, SetOption, TargetsOption, target_names


def command(job: JobArgument, target: TargetsOption = None, set_: SetOption = None) -> None:
    """Print the script that a job would run; nothing is started."""
    from fairway_runner.jobs.job_file import load_job
    from fairway_runner.jobs.rendering import render_launcher
    from fairway_runner.submit.several import choose

    job_file = load_job(job, set_ or ())
    place = choose(job_file, target_names(target)).targets[0]
    print(render_launcher(job_file, job_file.resolve(place), place), end="")
