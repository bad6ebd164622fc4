"""Who has done what with a run, where people share a server: `show` tells it.

provenance.json   has in `by` who submitted it, which goes to its target with it
actions.jsonl     has a line for each thing that was done with it since, on this machine
"""

from __future__ import annotations

import json
import os
import time
from typing import TYPE_CHECKING, Any

from fairway_agent.fields import Fields, Unfit
from fairway_core.findings import UserError
from fairway_runner.runs.records import read_json

if TYPE_CHECKING:
    from pathlib import Path

FILE = "actions.jsonl"
_MOST = 1 << 20  # bytes that are read of it, the last ones


def append(file: Path, facts: dict[str, Any]) -> None:
    """Writes a line, whole even where several processes do, that its owner alone can read."""
    line = json.dumps(facts).encode() + b"\n"
    descriptor = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(descriptor, line)
    finally:
        os.close(descriptor)


def note(folder: Path, action: str, by: dict[str, str]) -> None:
    """Keeps that somebody has done it with the run in the folder: `by` has their name and id."""
    append(folder / FILE, {"action": action, "by": by["name"], "id": by["id"], "at": time.time()})


def signed(provenance: str, by: dict[str, str]) -> str:
    """The text of a run's provenance with who submits it."""
    return json.dumps({**json.loads(provenance), "user": by["name"], "by": by}, indent=1)


def submitter(folder: Path) -> dict[str, str] | None:
    """The name and id of who submitted the run, if that is known."""
    try:
        fields = Fields(read_json(folder / "provenance.json").get("by"), "who submitted")
        return {name: fields.text(name) for name in ("name", "id")}
    except (UserError, OSError, Unfit):
        return None


def actions(folder: Path, submitted: float) -> list[dict[str, Any]]:
    """What was done with a run, by whom and when, in order; nothing where people are not told
    apart. A line that cannot be read is left out."""
    found: list[dict[str, Any]] = []
    if by := submitter(folder):
        found.append({"action": "submit", "by": by["name"], "at": submitted})
    for line in _lines(folder / FILE):
        try:
            fields = Fields(json.loads(line), "an action")
            known = {name: fields.text(name) for name in ("action", "by")}
            moment = fields.moment_or_none("at")
        except (ValueError, RecursionError, Unfit):
            continue
        if moment is not None:
            found.append({**known, "at": moment})
    return found


def _lines(file: Path) -> list[bytes]:
    try:
        with file.open("rb") as kept:
            size = kept.seek(0, os.SEEK_END)
            kept.seek(max(0, size - _MOST))
            return kept.read().splitlines()
    except OSError:
        return []
