"""The files of a job's inputs, for a sweep that makes a point of each."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from fairway_core.findings import Finding, Severity, UserError
from fairway_runner.engines.capabilities import runs_here
from fairway_runner.jobs.job_file import sweeps_files
from fairway_runner.jobs.mounts import below_mount, blobs_of
from fairway_runner.jobs.project_sandbox import require_code
from fairway_runner.jobs.walk import walk

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fairway_core.target import Target
    from fairway_core.yaml_text import DataPath
    from fairway_runner.jobs.job_file import JobFile


def with_files(job_file: JobFile, target: Target, *, asks: bool = True) -> JobFile:
    """The job file with the files of the inputs whose names its sweep takes; itself where it takes
    none. Unless one `asks`, a target elsewhere is not asked: a single point stands for all.
    UserError at its line for an input that is not staged from storage."""
    if not sweeps_files(job_file.document.data) or (sweep := job_file.sweep()) is None:
        return job_file
    wanted = {name: path for path, name in sweep.inputs()}
    known = job_file.document.data.get("inputs")
    listed = {
        name: tuple(_names(job_file, name, path, target))
        if asks or runs_here(target.engine)
        else None
        for name, path in wanted.items()
        if isinstance(known, dict) and name in known  # what is missing is said by the sweep
    }
    return replace(job_file, listed=listed)


def unlisted(job_file: JobFile) -> list[Finding]:
    """Reports inputs whose files have not been listed."""
    return [
        Finding(
            "unlisted-files",
            f"each file of the input `{name}` will be a task; they are listed at submission",
            f"see them now: fairway sweep {job_file.document.file} --target NAME",
            severity=Severity.WARNING,
        )
        for name, names in job_file.listed.items()
        if names is None
    ]


def _names(job_file: JobFile, name: str, path: DataPath, target: Target) -> Iterator[str]:
    """The paths of an input's files below its folder."""
    source = job_file.field(("inputs", name), target)
    blobs = source.get("from") if isinstance(source, dict) else None
    if not isinstance(blobs, str) or blobs == "run":
        message = f"the files of the input `{name}` are not known before the job runs"
        hint = f"stage it from storage: {name}: {{from: CONTAINER:PATH}}"
        hint += f"\nor share them among tasks: shards: {{input: {name}, of: 8}}"
        raise _fault(job_file, path, message, hint)
    if not runs_here(target.engine):
        yield from _blobs(*blobs_of(job_file, name, blobs, target), target)
        return
    folder = below_mount(job_file, ("inputs", name, "from"), blobs, target)
    require_code(folder)
    if folder.is_file():
        yield folder.name
        return
    try:
        yield from (each.path for each in walk(folder) if each.is_file)
    except OSError as error:
        message = f"{error.filename}: {error.strerror}"
        raise _fault(job_file, path, message, "make it readable, or remove it") from None


def _blobs(container: str, path: str, target: Target) -> Iterator[str]:
    from fairway_agent.staging import below
    from fairway_boot.files import Fault
    from fairway_runner.engines.azure.storage import Storage
    from fairway_runner.engines.outage import deadline

    for blob in Storage(target, deadline()).blobs(container, path):
        try:
            name = below(str(blob.name), path)
        except Fault as fault:
            raise UserError.of("bad-input", str(fault), str(fault.record["hint"])) from None
        if name is not None:
            yield name


def _fault(job_file: JobFile, path: DataPath, message: str, hint: str) -> UserError:
    dotted = ".".join(map(str, path))
    location = job_file.document.location(path)
    return UserError(
        [Finding("bad-sweep", f"`{dotted}`: {message}", hint, dotted, location=location)]
    )
