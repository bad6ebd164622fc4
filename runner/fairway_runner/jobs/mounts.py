"""Where the paths of a job lie on a target: `data:/imagenet` below the mount `data`."""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, NoReturn

from fairway_core.findings import Finding, UserError
from fairway_core.suggestions import did_you_mean
from fairway_runner.engines.capabilities import runs_here
from fairway_runner.jobs.job_fields import BestInput, KeptInput
from fairway_runner.jobs.project_sandbox import require_lasting

if TYPE_CHECKING:
    from pathlib import PurePath

    from fairway_agent.spec import Staged
    from fairway_core.target import Target
    from fairway_core.yaml_text import DataPath
    from fairway_runner.jobs.job import Job
    from fairway_runner.jobs.job_file import JobFile


def input_directories(job_file: JobFile, job: Job, target: Target) -> dict[str, str]:
    """FAIRWAY_INPUT_<ID> for each input that is there; UserError at its line where one cannot
    be read. On `local` a staged input is too: its container is a folder of this machine. Those of
    other runs are found by `submit.chain`."""
    found = {}
    for name, source in job.inputs.items():
        key: DataPath = ("inputs", name)
        if isinstance(source, KeptInput | BestInput):
            continue
        if not isinstance(source, str):
            if not runs_here(target.engine):
                continue
            key, source = (*key, "from"), source.from_
        path = below_mount(job_file, key, source, target)
        if runs_here(target.engine) and not path.exists():
            _fail(job_file, key, f"`{source}` is {path}, which does not exist")
        found[f"FAIRWAY_INPUT_{name.upper()}"] = str(path)
    return found


def staged_inputs(job_file: JobFile, job: Job, target: Target) -> list[Staged]:
    """Returns the inputs to copy from storage before the tasks. Raises UserError at its line if the
    target has no such container; empty on `local`."""
    staged: list[Staged] = []
    if runs_here(target.engine):
        return staged
    for name, source in job.inputs.items():
        if isinstance(source, str | KeptInput | BestInput):
            continue
        from fairway_agent.spec import Staged

        container, path = blobs_of(job_file, name, source.from_, target)
        to = None
        if source.to is not None:
            to = str(below_mount(job_file, ("inputs", name, "to"), source.to, target))
        staged.append(Staged(name, container, path, source.stage, to))
    return staged


def blobs_of(job_file: JobFile, name: str, source: str, target: Target) -> tuple[str, str]:
    """The container and path of a staged input; UserError at its line for an unknown container."""
    container, _, path = source.partition(":")
    known = target.storage.containers if target.storage else ()
    if container not in known:
        message = f"the target `{target.name}` has no storage container `{container}`"
        hint = did_you_mean(container, known) if known else "it has no storage account"
        _fail(job_file, ("inputs", name, "from"), message, hint)
    return container, path.lstrip("/")


def checkpoint_directory(job_file: JobFile, job: Job, target: Target) -> str | None:
    """The directory of the job's checkpoints, or None where each run has its own. Elsewhere than on
    this machine one that is relative lies in the engine's shared folder."""
    directory = job.checkpoint.directory
    if directory is None:
        return None
    key: DataPath = ("checkpoint", "directory")
    path: PurePath
    if re.match(r"[a-z][a-z0-9-]*:", directory):
        path = below_mount(job_file, key, directory, target)
    elif runs_here(target.engine):
        if not Path(directory).is_absolute():
            require_lasting(directory)
        path = job_file.folder / directory
    else:
        path = PurePosixPath(directory)
        if path.is_absolute() or ".." in path.parts:
            message = f"`{directory}` is a folder of this machine"
            _fail(job_file, key, message, "write MOUNT:PATH, or a path below the job's folder")
    if runs_here(target.engine):
        _require_possible(job_file, key, Path(path))
    return str(path)


def below_mount(job_file: JobFile, key: DataPath, source: str, target: Target) -> Path:
    """Where `MOUNT:PATH` is on the target; UserError at its line for an unknown mount."""
    mount, _, path = source.partition(":")
    if mount not in target.mounts:
        storage = target.storage
        if storage and mount in storage.containers and key[0] == "inputs":
            message = f"`{mount}` is a storage container, whose blobs are staged first"
            hint = f'write {{from: "{source}", stage: scratch}}'
            _fail(job_file, key, message, hint)
        hints = [did_you_mean(mount, target.mounts)] if target.mounts else []
        if runs_here(target.engine):
            hints.append(_LOCAL_MOUNT.format(mount=mount))
        message = f"the target `{target.name}` has no mount `{mount}`"
        _fail(job_file, key, message, "\n".join(each for each in hints if each))
    return Path(target.mounts[mount], path.lstrip("/"))


_LOCAL_MOUNT = """say in fairway.yaml where it is on this machine:
  targets:
    - {{name: local, mounts: {{{mount}: /path/to/it}}}}"""


def _require_possible(job_file: JobFile, key: DataPath, path: Path) -> None:
    try:
        exists = next(each for each in (path, *path.parents) if each.exists())
        fault = "" if exists.is_dir() else f"{exists} is not a directory"
    except OSError as error:
        fault = str(error.strerror)
    if fault:
        dotted = ".".join(str(step) for step in key)
        _fail(job_file, key, f"`{dotted}`: no directory can be made there: {fault}")


def _fail(job_file: JobFile, key: DataPath, message: str, hint: str = "") -> NoReturn:
    location = job_file.document.location(key)
    dotted = ".".join(str(step) for step in key)
    raise UserError([Finding("bad-value", message, hint, dotted, location=location)])
