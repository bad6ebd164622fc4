"""Runs that lie on the shared folder: which there are, and how one goes."""

from __future__ import annotations

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
