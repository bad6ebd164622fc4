"""`fairway sweep`: the points of a job's sweep."""

from __future__ import annotations

import json

from fairway_cli.commands.arguments import (
    DeadlineOption,
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
    _deadline: DeadlineOption = None,
) -> None:
    """List the points of a job's sweep with the parameters of each; nothing is started."""
    from fairway_runner.jobs.job_file import load_job, sweeps_files
    from fairway_runner.submit.run_inputs import with_files

    job_file = load_job(job, set_ or ())
    if target or sweeps_files(job_file.document.data):
        from fairway_runner.submit.target_selection import select_targets

        job_file = with_files(job_file, select_targets(job_file, target_names(target)).targets[0])
    sweep = job_file.require_sweep()
    rows = [{"index": index, "params": params} for index, params in enumerate(sweep.merged())]
    if json_:
        print(json.dumps(rows, indent=1))
        return
    from fairway_cli.ui.runs import print_points

    print_points(rows)
