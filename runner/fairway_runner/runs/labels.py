"""Tags, notes and people's actions on a run, stored apart from its submission."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from fairway_agent.quick import dataclass
from fairway_agent.records import Fields, InvalidRecord, JsonRecord, Plain
from fairway_boot.files import hold_lock, write_json
from fairway_core.findings import UserError
from fairway_core.suggestions import did_you_mean
from fairway_runner.runs.records import RunRecord, legible_facts, read_if_there, writing

_FILE, _LOCK = "labels.json", "labels.lock"


@dataclass(frozen=True)
class Labels(JsonRecord, label="the labels"):
    """Labels of a run: its tags in the order in which they were added, and its note."""

    tags: tuple[Plain, ...] = ()
    note: str = ""

    def changed(
        self, add: Iterable[str] = (), remove: Iterable[str] = (), note: str | None = None
    ) -> Labels:
        """Returns labels with tags added and removed, and with the note replaced if one is given.
        Raises UserError for an invalid tag or note, and for a missing tag to remove."""
        if isinstance(add, str) or isinstance(remove, str):
            from fairway_core.validation import require_list

            require_list("tags", add)
            require_list("remove", remove)
        tags = list(dict.fromkeys((*self.tags, *(_checked("tag", each) for each in add))))
        for each in remove:
            if each not in tags:
                hint = did_you_mean(each, tags) if tags else "it has none"
                raise UserError.of("unknown-tag", f"there is no tag `{each}` to remove", hint)
            tags.remove(each)
        return Labels(tuple(tags), self.note if note is None else _checked("note", note))


def read_labels(folder: Path, record: RunRecord) -> Labels:
    """Reads the tags and note of the run in a folder. Raises UserError if their file is damaged."""
    known = read_if_there(folder / _FILE, Labels.from_json)
    return known or Labels(tuple(record.tags), record.note)


def write_labels(
    folder: Path, record: RunRecord, add: Iterable[str], remove: Iterable[str], note: str | None
) -> Labels:
    """Changes the run's tags and note on this machine and returns them; see `Labels.changed`."""
    fault, hint = f"{folder / _FILE}: cannot be written", f"see who owns it: ls -ld {folder}"
    with writing(fault, hint, exit_code=5), hold_lock(folder / _LOCK):
        before = read_labels(folder, record)
        after = before.changed(add, remove, note)
        if after != before:
            write_json(folder / _FILE, after.to_json())
        return after


def labelled(record: RunRecord, tags: Iterable[str] = (), note: str | None = None) -> RunRecord:
    """Returns a record with more tags, and with another note if one is given."""
    labels = Labels(tuple(record.tags), record.note).changed(tags, note=note)
    return replace(record, tags=list(labels.tags), note=labels.note)


def _checked(kind: str, value: str) -> str:
    # Imported here, because reading labels needs no pydantic.
    from fairway_core.documents import FieldError
    from fairway_runner.jobs import job_fields

    try:
        return job_fields.tag(value) if kind == "tag" else job_fields.note(value)
    except FieldError as error:
        raise UserError.of(f"bad-{kind}", str(error), error.hint) from None


FILE = "actions.jsonl"
_MOST = 1 << 20  # bytes that are read, from the end of the file


def append(file: Path, facts: dict[str, Any]) -> None:
    """Appends a line that only its owner can read, atomically even if several processes do so."""
    descriptor = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(descriptor, json.dumps(facts).encode() + b"\n")
    finally:
        os.close(descriptor)


def note(folder: Path, action: str, by: dict[str, str]) -> None:
    """Records an action on the run in the folder; `by` has the person's name and id."""
    append(folder / FILE, {"action": action, "by": by["name"], "id": by["id"], "at": time.time()})


def submitter(folder: Path) -> dict[str, str] | None:
    """Returns the name and id of the run's submitter, if known."""
    try:
        fields = Fields(legible_facts(folder / "provenance.json").get("by"), "who submitted")
        return {name: fields.text(name) for name in ("name", "id")}
    except InvalidRecord:
        return None


def actions(folder: Path, submitted: float) -> list[dict[str, Any]]:
    """Lists the actions on a run with people and times, in order; empty if people are not
    identified. Unreadable lines are left out."""
    found: list[dict[str, Any]] = []
    if by := submitter(folder):
        found.append({"action": "submit", "by": by["name"], "at": submitted})
    text = b""
    with suppress(OSError), (folder / FILE).open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - _MOST))
        text = file.read()
    for line in text.splitlines():
        with suppress(ValueError, RecursionError, InvalidRecord):
            fields = Fields(json.loads(line), "an action")
            known = {name: fields.text(name) for name in ("action", "by")}
            found.append({**known, "at": fields.moment("at")})
    return found
