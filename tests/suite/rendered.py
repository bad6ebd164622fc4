"""Jobs rendered for this machine or for a Slurm cluster of a VM size, and the environment that an
engine and a node give their scripts."""

import json
import os
from pathlib import Path
from typing import Any

from targets import target_of

from fairway_core.target import Target
from fairway_runner.jobs.job import Job
from fairway_runner.jobs.job_file import load_job
from fairway_runner.jobs.launcher import render_launcher


def cluster_of(size: str, **facts: Any) -> Target:
    """Returns a Slurm cluster with nodes of that size, or the target `local`."""
    if size == "local":
        return Target.local()
    nodes = {"min": 0, "max": 16}
    return target_of("slurm", name="cluster", vm_size=size, nodes=nodes, **facts)


def rendered(folder: Path, place: Target, **job: Any) -> tuple[Job, str]:
    """Returns a job on that target, and its script; the job file is JSON, which is YAML."""
    file = folder / "job.yaml"
    file.write_text(json.dumps(job))
    job_file = load_job(file)
    resolved = job_file.resolve(place)
    return resolved, render_launcher(job_file, resolved, place)


def contract(root: Path, nodes: int = 1, width: int = 1, **more: str) -> dict[str, str]:
    """Returns the variables with which an engine starts a script; all its folders are `root`."""
    hosts = [f"127.0.1.{number + 1}" for number in range(nodes)]
    (root / "hosts").write_text("".join(f"{host}\n" for host in hosts))
    facts = {"SYSTEM_ROOT": root, "SCRATCH_DIR": root, "HOSTFILE": root / "hosts", "NODES": nodes}
    facts |= {"HOSTS": ",".join(hosts), "PROCESSES_PER_NODE": width, "WORLD_SIZE": nodes * width}
    known = {f"FAIRWAY_{name}": str(value) for name, value in facts.items()}
    return {"PATH": os.environ["PATH"], **known, **more}


def infiniband_port(root: Path, device: str, *keys: str, link: str = "InfiniBand") -> Path:
    """Makes the folder of a device's port below `root`, as the kernel shows it."""
    folder = root / f"sys/class/infiniband/{device}/ports/1"
    (folder / "pkeys").mkdir(parents=True)
    (folder / "link_layer").write_text(f"{link}\n")
    for index, key in enumerate(keys):
        (folder / f"pkeys/{index}").write_text(f"{key}\n")
    return folder
