"""Runs on the shared folder: where they stand, what they print, and whether it can be used."""

from __future__ import annotations

import shutil
import tempfile
import time
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from fairway_agent import state_files
from fairway_agent.records import Damaged
from fairway_agent.shared.receive import facts_of, remove
from fairway_agent.shared.reports import (
    MOST,
    CancelRequest,
    Done,
    Health,
    RunReport,
    RunRequest,
    RunsReport,
    RunsRequest,
    StatesReport,
    StatesRequest,
    pieces_of,
)
from fairway_agent.spec import FIGURES, LAST
from fairway_boot.files import NO_ANSWER, Fault

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path


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
    fault, free = "", 0
    try:
        shared.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=shared) as file:
            file.write(_SOME)
            file.flush()
    except OSError as error:
        fault = error.strerror or str(error)
    for folder in (shared, *shared.parents):  # or the nearest above it that can be looked at
        with suppress(OSError):
            free = shutil.disk_usage(folder).free
            break
    return Health(free, time.time(), fault, **more)


def cancel(
    shared: Path,
    request: CancelRequest,
    end_run: Callable[[Path, CancelRequest], None],
    end_task: Callable[[Path, CancelRequest], None],
) -> Done:
    """Ends a submission, or a task of it, unless the run is gone."""
    folder = shared / "runs" / request.run
    if folder.is_dir():
        (end_task if request.task else end_run)(folder, request)
    return Done()


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
    known: list[str] = []
    with suppress(FileNotFoundError):  # the run may be removed meanwhile
        known = [each.name for each in (folder / "tasks").iterdir()]
    # The tasks that have a folder: by their numbers, and then the last.
    names = [*sorted(filter(str.isdecimal, known), key=int), *(n for n in known if n == LAST)]
    tasks = {}
    for name in ("setup", *names):
        place = _folder(folder, name)
        if name in done or (status := state_files.read_task(place)) is None:
            continue
        if status.is_final:
            log = place / "log.txt"
            status = replace(status, log_size=log.stat().st_size if log.exists() else 0)
        tasks[name] = status
    files = ((name, _folder(folder, name) / "log.txt") for name in asked.logs)
    logs, more = pieces_of(files, asked.logs, budget)
    if asked.samples is None:
        return RunReport(state, tasks, logs, more=more)
    files = ((each.stem, each) for each in sorted((folder / FIGURES).glob("*.jsonl")))
    samples, more_samples = pieces_of(files, asked.samples, budget)
    return RunReport(state, tasks, logs, samples, more or more_samples)


def _folder(folder: Path, name: str) -> Path:
    return folder / "setup" if name == "setup" else folder / "tasks" / name
