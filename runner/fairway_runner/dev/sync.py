"""Keeps the code of a session in step: what changes in the folder here is copied there.

It goes one way. What programs of the session write there stays there, unless a file of the same
name changes here; what is removed there is not removed here.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fairway_agent
from fairway_agent import record
from fairway_agent.code_changes import MARK
from fairway_agent.fields import Fields, Unfit
from fairway_core.findings import UserError, printable
from fairway_runner.runs.records import read_json
from fairway_runner.submit.snapshot import listed

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from fairway_runner.dev.beside import Beside
    from fairway_runner.runs.folder import RunFolder

# Of this machine alone, as the points say.
_KNOWN = ".sent.json"
_LOCK = ".sent.lock"
_MOST_AT_ONCE = 32 << 20  # bytes
# Beside what prepares a task it would be in some other folder. By FAIRWAY_PID it would count as use
# of the session. -I: neither the code nor variables change what is imported.
_APPLY = """
: "${FAIRWAY_SESSION:?the session has not begun}"
exec env -u FAIRWAY_PID python3 -I -c "$1"
"""

Stamp = tuple[int, int, bool]
"""A file's size, when it was changed, and whether it is executable."""


@dataclass(frozen=True)
class Changes:
    """What differs between the folder here and what was sent: paths of files that are new or
    other, and of files that are gone."""

    written: Sequence[str] = ()
    removed: Sequence[str] = ()

    def __bool__(self) -> bool:
        return bool(self.written or self.removed)


@dataclass(frozen=True)
class Known:
    """A folder of code, what of it is left out, and its files as they were sent."""

    folder: Path
    exclude: tuple[str, ...]
    files: Mapping[str, Stamp]
    gitignore: bool = False

    @classmethod
    def of(cls, folder: Path, exclude: Sequence[str], *, gitignore: bool = False) -> Known:
        """As the folder is now."""
        files = _stamps(folder, exclude, gitignore=gitignore)
        return cls(folder.resolve(), tuple(exclude), files, gitignore)

    @classmethod
    def read(cls, run: RunFolder) -> Known | None:
        """As it was written last; None for a session that was started elsewhere."""
        try:
            fields = Fields(read_json(run.folder / _KNOWN), "what was sent")
            files = {
                path: (int(size), int(changed), bool(executable))
                for path, (size, changed, executable) in fields.facts["files"].items()
            }
            ignores = fields.facts["gitignore"] is True
            return cls(Path(fields.text("folder")), fields.texts("exclude"), files, ignores)
        except FileNotFoundError:
            return None
        except (UserError, Unfit, KeyError, TypeError, ValueError, AttributeError):
            # Once the file is removed, all of it is sent again.
            message = f"{run.folder / _KNOWN} cannot be read"
            hint = "remove it and start another session, or: --no-sync"
            raise UserError.of("damaged-run", message, hint) from None

    def write(self, run: RunFolder) -> None:
        """Keeps it in the run's folder."""
        facts: dict[str, Any] = {"folder": str(self.folder), "exclude": self.exclude}
        facts |= {"files": self.files, "gitignore": self.gitignore}
        record.write_json(run.folder / _KNOWN, facts)


@dataclass
class Sync:
    """What copies the changes of a session's code, which all its nodes share."""

    beside: Beside
    known: Known
    refused: dict[str, str] = field(default_factory=dict)
    """Paths that were not copied since the last `take_refused`, and why."""
    took: float = 0.0
    """The seconds of the last look at the folder."""

    def look(self) -> tuple[Changes, dict[str, Stamp]]:
        """What differs now, and the folder's files. UserError where it is more than code, or
        cannot be read."""
        began, known = time.monotonic(), self.known
        try:
            now = _stamps(known.folder, known.exclude, gitignore=known.gitignore)
        finally:
            self.took = time.monotonic() - began
        before = known.files
        written = [path for path, stamp in now.items() if before.get(path) != stamp]
        return Changes(written, [path for path in before if path not in now]), now

    def send(self) -> Changes:
        """Copies what differs, and returns it. UserError where the session does not answer, whose
        nodes may have a part of it then: all of it is sent again by the next call."""
        changes, now = self.look()
        if not changes:
            return changes
        for data in _packed(self.known.folder, changes, self.refused):
            self._send(data)
        self.known = replace(self.known, files=now)
        # What was refused is tried again when it changes, and by who attaches later.
        sent = {path: stamp for path, stamp in now.items() if path not in self.refused}
        replace(self.known, files=sent).write(self.beside.run)
        return changes

    def _send(self, data: bytes) -> None:
        said = self.beside.ask(["sh", "-c", _APPLY, "sh", _source()], data)
        line = next((each for each in reversed(said.splitlines()) if each.startswith(MARK)), "")
        try:
            refused = json.loads(line.removeprefix(MARK))["refused"]
            found = {str(path): str(why) for path, why in refused}
        except (ValueError, KeyError, TypeError, RecursionError):
            message = f"{self.beside.run.id} gave an answer that cannot be read"
            hint = "leave the code there as it is: --no-sync"
            raise UserError.of("session-failed", message, hint, exit_code=5) from None
        self.refused |= found

    def take_refused(self) -> list[str]:
        """What was not copied, and why, since the last call; for a terminal."""
        found, self.refused = sorted(self.refused.items()), {}
        return [printable(f"{path}: {why}") for path, why in found]


def take_turn(run: RunFolder) -> int | None:
    """The descriptor of a lock by which one process alone sends; None while another does."""
    return record.try_lock(run.folder / _LOCK)


def _stamps(folder: Path, exclude: Sequence[str], *, gitignore: bool) -> dict[str, Stamp]:
    return {
        file.path: (file.size, file.changed, file.executable)
        for file in listed(folder, exclude, gitignore=gitignore).files
        if not file.is_folder
    }


def _packed(folder: Path, changes: Changes, refused: dict[str, str]) -> Iterator[bytes]:
    """The changes as `fairway_agent.code_changes` reads them, some at a time: first what is
    removed, in whose place others may come. What cannot be read is added to `refused`."""
    removed: Sequence[str] = changes.removed
    files: list[dict[str, Any]] = []
    contents: list[bytes] = []
    size = 0
    for path in changes.written:
        try:
            content = (folder / path).read_bytes()
            executable = bool((folder / path).stat().st_mode & 0o100)
        except FileNotFoundError:
            continue  # it is gone again, which the next look sees
        except OSError as error:
            refused[path] = error.strerror or "it cannot be read"
            continue
        files.append({"path": path, "size": len(content), "executable": executable})
        contents.append(content)
        size += len(content)
        if size > _MOST_AT_ONCE:
            yield _message(removed, files, contents)
            removed, files, contents, size = (), [], [], 0
    if removed or files:
        yield _message(removed, files, contents)


def _message(
    removed: Sequence[str], files: Sequence[dict[str, Any]], contents: Sequence[bytes]
) -> bytes:
    head = json.dumps({"removed": list(removed), "files": list(files)})
    return b"".join([head.encode(), b"\n", *contents])


@cache
def _source() -> str:
    return Path(fairway_agent.__file__).with_name("code_changes.py").read_text(encoding="utf-8")
