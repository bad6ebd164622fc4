"""Runs that lie on the shared folder: which there are, and how one goes."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

from fairway_agent import record
from fairway_agent.shared import inputs
from fairway_agent.shared.receive import forget_code
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
        _remove(shared, shared / "runs" / request.remove)
        return RunsReport({}, {})
    known = set(request.known)
    found, submissions = {}, {}
    runs = shared / "runs"
    for folder in sorted(runs.iterdir()) if runs.is_dir() else ():
        if folder.name.startswith(".") or folder.name in known:
            continue
        if _facts(folder / "run.json").get("target") == request.target:
            number = _facts(folder / "state.json").get("submission")
            submissions[folder.name] = number if type(number) is int and number >= 0 else 0
            found[folder.name] = {
                name: (folder / name).read_text(encoding="utf-8", errors="replace")
                for name in FILES
                if (folder / name).is_file()
            }
    return RunsReport(found, submissions)


def _remove(shared: Path, folder: Path) -> None:
    gone = folder.with_name(f".{folder.name}.removed")
    if folder.is_dir():
        code = str(_facts(folder / "provenance.json").get("code", ""))
        forget_code(shared, code[:16], folder.name)
        inputs.forget(shared, folder.name)
        shutil.rmtree(gone, ignore_errors=True)
        folder.rename(gone)
    shutil.rmtree(gone, ignore_errors=True)


def _facts(path: Path) -> dict[str, Any]:
    """A file's mapping; nothing where there is none that can be read."""
    try:
        value: object = record.read_json(path)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
