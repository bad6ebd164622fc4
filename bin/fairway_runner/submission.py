"""From a job file and a target to a run that has started."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import fairway_core
from fairway_runner.engines.local import engine
from fairway_runner.launcher import render_launcher
from fairway_runner.runs import RunRecord, RunStore
from fairway_runner.templates import front_matter

if TYPE_CHECKING:
    from fairway_core.target import Target
    from fairway_runner.job_file import JobFile
    from fairway_runner.runs import Run


def submit(job_file: JobFile, target: Target, store: RunStore) -> Run:
    """Starts the job on the target and returns its run.

    Nothing is written before all that can be wrong with the job was looked at.
    """
    job = job_file.resolve(target)
    template = job_file.template_file(job)
    script = render_launcher(job_file, job, target)
    engine.require(front_matter(template, template.read_text(encoding="utf-8")).needs)
    run_id = store.new_id(job.name)
    record = RunRecord(
        id=run_id,
        name=job.name,
        target=target.name,
        created=time.time(),
        tasks=1,
        job_file=job_file.document.file,
        fairway=fairway_core.__version__,
    )
    files = {
        "job.yaml": job_file.document.text.source,
        "job.json": job.model_dump_json(indent=1),
        "plan.json": engine.plan(run_id, job, job_file.folder, record.tasks),
        "tasks/0/launch.sh": script,
    }
    run, lock = store.create(record, files)
    engine.start(run, lock)
    return run
