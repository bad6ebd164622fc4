"""`fairway sweep`: the points of a job's sweep."""

from __future__ import annotations

import json

from fairway_cli.commands.arguments import JobArgument, JsonOption, SetOption


def command(job: JobArgument, set_: SetOption = None, json_: JsonOption = False) -> None:
    """List the points of a job's sweep with the parameters of each; nothing is started."""
    from fairway_runner.jobs.job_file import load_job
    from fairway_runner.jobs.sweep.job_sweep import require_sweep

    job_file = load_job(job, set_ or ())
    sweep = require_sweep(job_file.document, job_file.folder)
    rows = [{"index": index, "params": params} for index, params in enumerate(sweep.merged())]
    if json_:
        print(json.dumps(rows, indent=1))
        return
    from fairway_cli.ui.tables import print_points

    print_points(rows)
