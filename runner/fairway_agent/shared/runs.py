"""Runs on the shared folder: where they stand, what they print, and whether it can be used."""

from __future__ import annotations

import shutil
import tempfile
import time
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from fairway_agent import figures, state_files
from fairway_agent.records import Damaged
from fairway_agent.shared.receive import facts_of, remove
from fairway_agent.shared.reports import (
    MOST,
    Health,
    RunReport,
    RunRequest,
    RunsReport,
    RunsRequest,
    StatesReport,
    StatesRequest,
    pieces_of,
)
from fairway_agent.spec import LAST
from fairway_boot.files import NO_ANSWER, Fault

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from fairway_agent.state_files import TaskState


# What a person elsewhere needs of a run; the rest is brought when it is asked for.
FILES: tuple[str, ...] = (
    "run.json",
    "job.json",
    "job.yaml",
    "target.json",
    "plan.json",
    "provenance.json",
)
FILES += ("setup.jsonl", "tasks.jsonl", "finally.jsonl", "code.diff")


def runs(shared: Path, request: RunsRequest, _: object) -> RunsReport:
    """Removes a run, or lists those of a target."""
    if request.remove is not None:
        remove(shared / "runs" / request.remove)
        return RunsReport({}, {})
    known = set(request.known)
    found, submissions = {}, {}
    base = shared / "runs"
    for folder in sorted(base.iterdir()) if base.is_dir() else ():
        if folder.name.startswith(".") or folder.name in known:
            continue
        if facts_of(folder / "run.json").get("target") == request.target:
            number = facts_of(folder / "state.json").get("submission")
            submissions[folder.name] = number if type(number) is int and number >= 0 else 0
            found[folder.name] = {
                name: (folder / name).read_text(encoding="utf-8", errors="replace")
                for name in FILES
                if (folder / name).is_file()
            }
    return RunsReport(found, submissions)


_SOME = b"x" * 4096  # over its quota a folder still takes files without any byte


def health(shared: Path, **more: Any) -> Health:
    """The health of a target: of its shared folder, and what `more` its kind says."""
    fault = _fault(shared)
    return Health(_free(shared), time.time(), fault, **more)


def _fault(shared: Path) -> str:
    """Reason why nothing can be written to the shared folder; "" if it can."""
    try:
        shared.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=shared) as file:
            file.write(_SOME)
            file.flush()
    except OSError as error:
        return error.strerror or str(error)
    return ""


def _free(shared: Path) -> int:
    """Of the folder, or of the nearest above it that can be looked at."""
    for folder in (shared, *shared.parents):
        try:
            return shutil.disk_usage(folder).free
        except OSError:
            continue
    return 0


def states(shared: Path, request: StatesRequest, _: object) -> StatesReport:
    return StatesReport(reports(shared, request.runs))


def reconciled(
    shared: Path,
    request: StatesRequest,
    reconcile_all: Callable[[list[Path]], dict[str, str]],
) -> StatesReport:
    """The states of the runs, after asking the scheduler, which also reports damaged runs. If it
    does not answer, they are what was known before, and `silent` says so."""
    silent, damaged = "", {}
    try:
        damaged = reconcile_all([shared / "runs" / run for run in request.runs])
    except Fault as fault:
        if fault.record["id"] != NO_ANSWER:
            raise
        silent = str(fault)
    found = reports(shared, request.runs)
    found |= {run: RunReport(None, damaged=why) for run, why in damaged.items()}
    return StatesReport(found, silent)


def reports(shared: Path, runs: Mapping[str, RunRequest]) -> dict[str, RunReport | None]:
    """Reports on each requested run; None for one that has no folder."""
    budget, found = [MOST], dict[str, RunReport | None]()
    for run, asked in runs.items():
        try:
            found[run] = _report(shared / "runs" / run, asked, budget)
        except Damaged as fault:
            found[run] = RunReport(None, damaged=str(fault))
    return found


def _report(folder: Path, asked: RunRequest, budget: list[int]) -> RunReport | None:
    # The run's own state first: what is final there is final in all that is read after it.
    state = state_files.read_run(folder)
    if state is None and not (folder / "plan.json").is_file():
        return None
    done = set(asked.done)
    names = [name for name in ("setup", *_names(folder / "tasks")) if name not in done]
    found = {name: _task(_folder(folder, name)) for name in names}
    tasks = {name: status for name, status in found.items() if status is not None}
    files = ((name, _folder(folder, name) / "log.txt") for name in asked.logs)
    logs, more = pieces_of(files, asked.logs, budget)
    if asked.samples is None:
        return RunReport(state, tasks, logs, more=more)
    files = ((each.stem, each) for each in sorted((folder / figures.FOLDER).glob("*.jsonl")))
    samples, more_samples = pieces_of(files, asked.samples, budget)
    return RunReport(state, tasks, logs, samples, more or more_samples)


def _task(folder: Path) -> TaskState | None:
    """A task's state, with the size of its log where it has ended; None before it is known."""
    status = state_files.read_task(folder)
    if status is None or not status.is_final:
        return status
    log = folder / "log.txt"
    return replace(status, log_size=log.stat().st_size if log.exists() else 0)


def _folder(folder: Path, name: str) -> Path:
    return folder / "setup" if name == "setup" else folder / "tasks" / name


def _names(folder: Path) -> list[str]:
    """The tasks that have a folder: by their numbers, and then the last."""
    found: list[str] = []
    with suppress(FileNotFoundError):  # the run may be removed meanwhile
        found = [each.name for each in folder.iterdir()]
    return [*sorted(filter(str.isdecimal, found), key=int), *(n for n in found if n == LAST)]
