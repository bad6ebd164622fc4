"""Keeps the code of a session in sync: changes in the folder here are copied there.

It is one-way. Files that programs of the session write stay, unless a file of that name changes
here; files removed there are not removed here.
"""

from __future__ import annotations

import io
import os
import shlex
import shutil
import subprocess
import tarfile
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from fairway_agent.records import Fields, InvalidRecord
from fairway_boot.files import try_lock, write_json
from fairway_core.findings import UserError, printable
from fairway_core.project_folder import VARIABLE
from fairway_runner.engines.remote.connection import UNPACK, die_with_parent
from fairway_runner.runs.records import read_json
from fairway_runner.submit.snapshot import list_files

if TYPE_CHECKING:
    from fairway_runner.runs.folder import RunFolder
    from fairway_runner.runs.store import Run


class SessionFailed(UserError):
    """Error of a session that does not carry out a request."""


@dataclass(frozen=True)
class SessionExec:
    """A session, and the command line of the program `fairway`, which reaches its nodes."""

    run: Run
    program: Sequence[str]

    def ask(self, words: Sequence[str], data: bytes = b"") -> str:
        """Runs a command in the session and returns its output, or raises its last errors."""
        done = self.run_here(self.command(words), data)
        if done.returncode:
            # Tar says what it did not do, and then that there was something.
            said = done.stderr.decode(errors="replace").strip().splitlines()[-3:]
            why = "; ".join(map(str.strip, said)) or f"exit code {done.returncode}"
            message = f"a command in {self.run.id} failed: {printable(why)}"
            hint = f"see its state: fairway show {self.run.id}"
            raise SessionFailed.of("session-failed", message, hint, exit_code=5)
        return done.stdout.decode(errors="replace")

    def command(self, words: Sequence[str]) -> list[str]:
        """Returns the command line that runs a command in the session."""
        return [*self.program, "exec", self.run.id, "--", *words]

    def run_here(self, words: Sequence[str], data: bytes) -> subprocess.CompletedProcess[bytes]:
        """Runs a program of this machine to its end; it may run commands in the session."""
        return subprocess.run(
            die_with_parent(words),
            input=data,
            capture_output=True,
            env=self.environment(),
            # Ctrl-C is meant for this program alone, which ends the transfer quietly.
            start_new_session=True,
            check=False,
        )

    def environment(self) -> dict[str, str]:
        """Returns the variables with which the program finds the run wherever it is started."""
        return {**os.environ, VARIABLE: str(self.run.folder.parents[2])}


# Leading dots: these files belong to this machine alone.
_KNOWN = ".sent.json"
_LOCK = ".sent.lock"
_UNUSED = ["env", "-u", "FAIRWAY_PID"]  # the variable would make this count as use of the session
# Follows links, skips empty folders and owners. Deletes named files there that no longer exist
# here.
_RSYNC = ["rsync", "-LEtzs", "--files-from=-", "--from0", "--delete-missing-args"]
# What programs there have put into a folder in place of a file stays.
_DELETE_FILES = 'sh -c \'for each; do [ -d "$each" ] || rm -f -- "$each"; done\' sh'
_DELETE_FOLDERS = "rm -rf --"
_VANISHED = 24  # a file vanished during the transfer; the next scan notices that

Stamp = tuple[int, int, bool]
"""A file's size, modification time, and whether it is executable."""


@dataclass(frozen=True)
class Changes:
    """Paths of new or changed files, and of removed ones, since the files were sent."""

    written: Sequence[str] = ()
    removed: Sequence[str] = ()

    def __bool__(self) -> bool:
        return bool(self.written or self.removed)

    @property
    def replaced(self) -> set[str]:
        """Folders of removed files that are files now."""
        return {each for path in self.removed for each in _folders(path)} & {*self.written}


@dataclass(frozen=True)
class Known:
    """A folder of code, its exclusions, and its files as they were sent."""

    folder: Path
    exclude: tuple[str, ...]
    files: Mapping[str, Stamp]
    gitignore: bool = False

    @classmethod
    def of(cls, folder: Path, exclude: Sequence[str], *, gitignore: bool = False) -> Known:
        """Returns the present state of the folder."""
        files = _stamps(folder, exclude, gitignore=gitignore)
        return cls(folder.resolve(), tuple(exclude), files, gitignore)

    @classmethod
    def read(cls, run: RunFolder) -> Known | None:
        """Reads the last recorded state; None for a session that another machine started."""
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
        except (UserError, InvalidRecord, KeyError, TypeError, ValueError, AttributeError):
            # Without the file, everything is sent again.
            message = f"{run.folder / _KNOWN} cannot be read"
            hint = "remove it and start another session, or: --no-sync"
            raise UserError.of("damaged-run", message, hint) from None

    def write(self, run: RunFolder) -> None:
        """Stores it in the run's folder."""
        facts: dict[str, Any] = {"folder": str(self.folder), "exclude": self.exclude}
        facts |= {"files": self.files, "gitignore": self.gitignore}
        write_json(run.folder / _KNOWN, facts)


@dataclass
class Sync:
    """Copier of the changes of a session's code to the folder `there`, which all its nodes share:
    by rsync, or as a tar file if one of the two sides has no rsync."""

    session: SessionExec
    known: Known
    there: str
    has_rsync: bool = True
    took: float = 0.0
    """Seconds that the last scan of the folder took."""

    def look(self) -> tuple[Changes, dict[str, Stamp]]:
        """Returns new changes and the folder's files. Raises UserError for more than code."""
        began, known = time.monotonic(), self.known
        try:
            now = _stamps(known.folder, known.exclude, gitignore=known.gitignore)
        finally:
            self.took = time.monotonic() - began
        before = known.files
        written = [path for path, stamp in now.items() if before.get(path) != stamp]
        return Changes(written, [path for path in before if path not in now]), now

    def send(self) -> Changes:
        """Copies changes, and returns them. Raises UserError if the session does not answer; its
        nodes may have a part of them then, and the next call sends all of them again."""
        changes, now = self.look()
        if not changes:
            return changes
        self._delete(changes.replaced, _DELETE_FOLDERS)
        if not (self.has_rsync and self._sent_by_rsync(changes)):
            self._delete(changes.removed, _DELETE_FILES)
            unpack = [*_UNUSED, "sh", "-c", UNPACK, "sh", self.there]
            self.session.ask(unpack, _packed(self.known.folder, changes.written))
            self.has_rsync = False  # as tar has done what it did not
        self.known = replace(self.known, files=now)
        self.known.write(self.session.run)
        return changes

    def _delete(self, paths: Collection[str], command: str) -> None:
        if paths:
            script = f'cd "$1" && xargs -0 {command}'
            self.session.ask([*_UNUSED, "sh", "-c", script, "sh", self.there], _names(paths))

    def _sent_by_rsync(self, changes: Changes) -> bool:
        if shutil.which("rsync") is None:
            return False
        # rsync wants a host name, which it adds to the command: `env` then runs the rest.
        through = shlex.join(self.session.command(_UNUSED))
        # Below what is a file now, rsync would look for the others in vain.
        replaced = changes.replaced
        left = (path for path in changes.removed if replaced.isdisjoint(_folders(path)))
        names = _names([*changes.written, *left])
        words = [*_RSYNC, "-e", through, "--", f"{self.known.folder}/", f"env:{self.there}/"]
        return self.session.run_here(words, names).returncode in (0, _VANISHED)


def take_turn(run: RunFolder) -> int | None:
    """Returns the descriptor of a lock for the one process that sends; None while another does."""
    return try_lock(run.folder / _LOCK)


def _folders(path: str) -> Iterable[str]:
    return map(str, PurePosixPath(path).parents)


def _names(paths: Iterable[str]) -> bytes:
    return b"".join(os.fsencode(path) + b"\0" for path in paths)


def _stamps(folder: Path, exclude: Sequence[str], *, gitignore: bool) -> dict[str, Stamp]:
    return {
        file.path: (file.size, file.changed, file.executable)
        for file in list_files(folder, exclude, gitignore=gitignore)[0]
        if not file.is_folder
    }


def _packed(folder: Path, paths: Sequence[str]) -> bytes:
    """Returns the files as a tar file, without vanished ones, which the next look notices."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz", compresslevel=1, dereference=True) as files:
        for path in paths:
            try:
                files.add(folder / path, arcname=path, recursive=False)
            except FileNotFoundError:
                continue
            except OSError as error:
                why = error.strerror or "it cannot be read"
                raise UserError.of("not-copied", f"{path}: {why}", "or exclude it") from None
    return buffer.getvalue()
