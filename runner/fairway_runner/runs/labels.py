"""Tags and the note of a run: those of its submission, or what became of them on this machine.

run.json      holds what the run was submitted with, which goes to its target with it
labels.json   is there once they were changed, and holds all of them
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

from fairway_agent.fields import Unfit
from fairway_agent.record import alone, write_json
from fairway_core.findings import UserError
from fairway_core.suggestions import did_you_mean
from fairway_runner.runs.records import damaged, read_json
from fairway_runner.runs.shapes import LABELS, check

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from fairway_runner.runs.records import RunRecord

_FILE, _LOCK = "labels.json", "labels.lock"


@dataclass(frozen=True)
class Labels:
    """What people call a run: its tags in the order in which they were added, and its note."""

    tags: tuple[str, ...] = ()
    note: str = ""

    def changed(
        self, add: Iterable[str] = (), remove: Iterable[str] = (), note: str | None = None
    ) -> Labels:
        """These with more tags, with fewer, and with another note where one is given.

        UserError for what cannot be a tag or a note, and for a tag to remove that is not there.
        """
        tags = list(dict.fromkeys((*self.tags, *map(_tag, add))))
        for each in remove:
            if each not in tags:
                hint = did_you_mean(each, tags) if tags else "it has none"
                raise UserError.of("unknown-tag", f"there is no tag `{each}` to remove", hint)
            tags.remove(each)
        return Labels(tuple(tags), self.note if note is None else _note(note))


def read_labels(folder: Path, record: RunRecord) -> Labels:
    """The tags and note of the run in a folder; UserError where their file is damaged."""
    path = folder / _FILE
    try:
        facts = read_json(path)
    except FileNotFoundError:
        return Labels(tuple(record.tags), record.note)
    try:
        check(facts, LABELS, "the labels")
    except Unfit as error:
        raise damaged(path, str(error)) from None
    return Labels(tuple(facts.get("tags", ())), facts.get("note", ""))


def write_labels(
    folder: Path,
    record: RunRecord,
    add: Iterable[str] = (),
    remove: Iterable[str] = (),
    note: str | None = None,
) -> Labels:
    """Changes the run's tags and note on this machine and returns them; see `Labels.changed`."""
    try:
        with alone(folder / _LOCK):
            before = read_labels(folder, record)
            after = before.changed(add, remove, note)
            if after != before:
                write_json(folder / _FILE, asdict(after))
    except OSError as error:
        message = f"{folder / _FILE}: cannot be written: {error.strerror}"
        hint = f"see who owns it: ls -ld {folder}"
        raise UserError.of("unwritable-folder", message, hint, exit_code=5) from None
    return after


def labelled(record: RunRecord, tags: Iterable[str] = (), note: str | None = None) -> RunRecord:
    """A record with more tags, and with another note where one is given."""
    labels = Labels(tuple(record.tags), record.note).changed(tags, note=note)
    return replace(record, tags=list(labels.tags), note=labels.note)


def _tag(value: str) -> str:
    return _checked("tag", value)


def _note(value: str) -> str:
    return _checked("note", value)


def _checked(kind: str, value: str) -> str:
    # Reading labels takes no pydantic.
    from fairway_core.documents import FieldError
    from fairway_runner.jobs import labels

    try:
        return labels.tag(value) if kind == "tag" else labels.note(value)
    except FieldError as error:
        raise UserError.of(f"bad-{kind}", str(error), error.hint) from None
