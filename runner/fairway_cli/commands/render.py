"""`fairway render`: the script that a job would run."""

from __future__ import annotations

import json

from fairway_cli.commands.arguments import (
    JobArgument,
    JsonOption,
    SetOption,
    TargetsOption,
    target_names,
)


def command(
    job: JobArgument,
    target: TargetsOption = None,
    set_: SetOption = None,
    json_: JsonOption = False,
) -> None:
    """Print the script that a job would run; nothing is started."""
    from fairway_runner.jobs.job_file import load_job
    from fairway_runner.jobs.launcher import render_launcher
    from fairway_runner.submit.target_selection import select_targets

    job_file = load_job(job, set_ or ())
    chosen = select_targets(job_file, target_names(target)).targets[0]
    resolved = job_file.resolve(chosen)
    script = render_launcher(job_file, resolved, chosen)
    if json_:
        facts = {"target": chosen.name, "template": resolved.template, "script": script}
        print(json.dumps({"name": resolved.name, **facts}, indent=1))
    else:
        print(script, end="")
