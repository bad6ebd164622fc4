"""Jobs as launchers get them: rendered for this machine, or for a Slurm cluster of a VM size."""

import json
from pathlib import Path
from typing import Any

from targets import target_of

from fairway_core.target import Target
from fairway_runner.jobs.job import Job
from fairway_runner.jobs.job_file import load_job
from fairway_runner.jobs.launcher import render_launcher


def cluster_of(size: str, **facts: Any) -> Target:
    """A Slurm cluster with nodes of that size, or `local`."""
    if size == "local":
        return Target.local()
    nodes = {"min": 0, "max": 16}
    return target_of("slurm", name="cluster", vm_size=size, nodes=nodes, **facts)


def rendered(folder: Path, place: Target, **job: Any) -> tuple[Job, str]:
    """A job on that target, and its script; the job file is JSON, which is YAML."""
    file = folder / "job.yaml"
    file.write_text(json.dumps(job))
    job_file = load_job(file)
    resolved = job_file.resolve(place)
    return resolved, render_launcher(job_file, resolved, place)
