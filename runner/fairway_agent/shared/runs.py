"""Runs that lie on the shared folder, and whether it can be used."""

from __future__ import annotations

import shutil
import tempfile
from typing import TYPE_CHECKING

from fairway_agent.shared.receive import facts_of, remove
from fairway_agent.shared.reports import RunsReport, RunsRequest

if TYPE_CHECKING:
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

REQUEST = RunsRequest


def answer(shared: Path, request: RunsRequest, _: object) -> RunsReport:
    """Removes a run, or lists those of a target."""
    if request.remove is not None:
        remove(shared / "runs" / request.remove)
        return RunsReport({}, {})
    known = set(request.known)
    found, submissions = {}, {}
    runs = shared / "runs"
    for folder in sorted(runs.iterdir()) if runs.is_dir() else ():
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


def probe(shared: Path) -> tuple[int, str]:
    """How many bytes are free there, and why nothing can be written; "" where it can."""
    try:
        shared.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=shared) as file:
            file.write(_SOME)
            file.flush()
    except OSError as error:
        return _free(shared), error.strerror or str(error)
    return _free(shared), ""


def _free(shared: Path) -> int:
    """Of the folder, or of the nearest above it that can be looked at."""
    for folder in (shared, *shared.parents):
        try:
            return shutil.disk_usage(folder).free
        except OSError:
            continue
    return 0
