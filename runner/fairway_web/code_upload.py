"""Uploaded code: pieces named by digests, kept for a day, unpacked while their job is checked."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import IO, Annotated, Any

from pydantic import BaseModel, Field, ValidationError

from fairway_core.findings import UserError
from fairway_core.yaml_text import unfit_character
from fairway_runner.jobs.project_files import NEVER, Origin
from fairway_runner.submit.code_upload import PIECE, digest_of
from fairway_runner.submit.snapshot import MOST_BYTES, MOST_FILES
from fairway_web.roles import request_context
from fairway_web.schemas import Pieces

_DIGEST = re.compile(r"[0-9a-f]{64}")
_MOST_PIECES = 2_000
_MOST_KEPT = 1 << 30  # bytes of the pieces of one person
_AGE = 86_400.0  # seconds until an unused piece is removed
_LARGEST_HEAD = 8 << 20  # bytes
# Every git directory has HEAD, even one not named `.git`: its settings can run programs, and git
# inspects the code again when the run is repeated.
_NEVER = ("HEAD", *NEVER)
_LONGEST_NAME, _LONGEST_PATH = 255, 1024  # bytes
_DEEPEST = 50  # components of a path, each of which is a folder on the server's disk
_AGAIN = "send it again: fairway --server URL submit JOB"


@dataclass(frozen=True)
class Uploads:
    """Code uploaded to one project, in a folder per person below `sent`, next to its runs."""

    base: Path

    @property
    def _folder(self) -> Path:
        own = hashlib.sha256(request_context().person.id.encode()).hexdigest()[:16]
        (folder := self.base / "sent" / own).mkdir(mode=0o700, parents=True, exist_ok=True)
        return folder

    def wanted(self, body: bytes) -> dict[str, Any]:
        """Stores the list of the pieces of some code; returns its name, and the missing pieces.
        Pieces unused for a day are removed, everybody's. Raises UserError for an invalid list."""
        pieces = _listed(body)
        before = time.time() - _AGE
        for entry in (self.base / "sent").glob("*/*"):
            with suppress(OSError):
                if entry.lstat().st_mtime < before:
                    shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
        missing = [each for each in dict.fromkeys(pieces) if not self._touch(each)]
        listed = json.dumps({"pieces": pieces}).encode()
        code = digest_of(listed)
        self.keep(code, listed)
        return {"code": code, "missing": missing}

    def keep(self, digest: str, piece: bytes) -> dict[str, Any]:
        """Stores one piece; returns its digest and size. Raises UserError if its digest differs, or
        if its sender has too many."""
        hint = "name it by the SHA-256 of its bytes"
        if not _DIGEST.fullmatch(digest):
            raise UserError.of("unknown-piece", f"no piece is called `{digest[:70]}`", hint)
        if digest_of(piece) != digest:
            raise UserError.of("wrong-digest", "this is not the piece that its name says", hint)
        if not self._touch(digest):
            self._require_room(len(piece))
            with tempfile.NamedTemporaryFile(dir=self._folder, prefix=".", delete=False) as draft:
                draft.write(piece)
            Path(draft.name).rename(self._folder / digest)
        return {"digest": digest, "size": len(piece)}

    @contextmanager
    def unpacked(self, code: str) -> Iterator[tuple[Path, Origin]]:
        """Yields the folder of a job whose code is unpacked in a temporary folder, and its origin.
        Raises UserError if pieces are missing, or are not valid code."""
        pieces = _listed(self._read(code))
        own = self._folder
        with (
            tempfile.TemporaryDirectory(prefix=".code-", dir=own) as made,
            tempfile.TemporaryFile(dir=own) as stream,
        ):
            for each in pieces:
                if stream.tell() > _LARGEST_HEAD + MOST_BYTES:
                    raise _bad("it continues after its last file")
                stream.write(self._read(each))
            stream.seek(0)
            root = Path(made).resolve()
            line = stream.readline(_LARGEST_HEAD)
            facts = _Head.of(line if line.endswith(b"\n") else b"")
            (root / facts.folder).mkdir(parents=True, exist_ok=True)
            for path, size, is_executable in facts.files:
                try:
                    if path.endswith("/"):
                        (root / path).mkdir(parents=True, exist_ok=True)
                    else:
                        _write(root / path, stream, size, is_executable=is_executable)
                except (FileExistsError, NotADirectoryError):
                    name = Path(path).name
                    raise _bad(f"`{name}` is in it twice, or a file and a folder") from None
            if stream.read(1):
                raise _bad("it continues after its last file")
            yield root / facts.folder, Origin(root, facts.git.model_dump())

    def _read(self, digest: str) -> bytes:
        if _DIGEST.fullmatch(digest):
            with suppress(FileNotFoundError):
                return (self._folder / digest).read_bytes()
        message = f"the server does not have the code `{digest[:70]}`, or no longer"
        raise UserError.of("unknown-code", message, _AGAIN)

    def _touch(self, digest: str) -> bool:
        """Returns True if a piece exists, and keeps it for another day."""
        try:
            os.utime(self._folder / digest)
        except FileNotFoundError:
            return False
        return True

    def _require_room(self, size: int) -> None:
        sizes = []
        for each in self._folder.iterdir():
            with suppress(FileNotFoundError):  # a clean-up has just removed it
                sizes.append(each.lstat().st_size)
        if sum(sizes) + size > _MOST_KEPT or len(sizes) >= _MOST_KEPT // PIECE * 20:
            message = f"more than {_MOST_KEPT >> 20:,} MiB of code were sent within a day"
            raise UserError.of("too-much-code", message, "leave data out: code: {exclude: [NAME]}")


def _listed(body: bytes) -> list[str]:
    """Returns the digests of a list of pieces. Raises UserError for an invalid or too long list."""
    with suppress(ValidationError):
        pieces = Pieces.model_validate_json(body).pieces
        if 0 < len(pieces) <= _MOST_PIECES:
            return pieces
    message = f"this is not a list of up to {_MOST_PIECES:,} pieces"
    raise UserError.of("bad-request", message, 'send {"pieces": [SHA-256, …]}')


class _Git(BaseModel):
    commit: Annotated[str, Field(pattern="^[0-9a-f]{7,64}$")] | None
    dirty: bool
    untracked: list[str]


class _Head(BaseModel):
    """First line of uploaded code."""

    folder: str
    git: _Git
    files: list[tuple[str, Annotated[int, Field(ge=0)], bool]] = Field(max_length=MOST_FILES)

    @classmethod
    def of(cls, line: bytes) -> _Head:
        """Parses the line. Raises UserError if it is invalid."""
        with suppress(ValidationError):
            head = cls.model_validate_json(line, strict=True)
            is_sound = not any(size and path.endswith("/") for path, size, _ in head.files)
            if is_sound and sum(size for _, size, _ in head.files) <= MOST_BYTES:
                if head.folder != ".":
                    _require_safe(head.folder)
                for path, *_ in head.files:
                    _require_safe(path)
                return head
        raise _bad("it does not list its files")


def _require_safe(path: str) -> None:
    """Raises UserError for a path that leads out, or that jobs never contain, as git's."""
    parts = path.removesuffix("/").split("/")
    if (
        len(path.encode()) > _LONGEST_PATH
        or len(parts) > _DEEPEST
        or unfit_character(path)
        or "\n" in path
        or any(part in ("", ".", "..") or len(part.encode()) > _LONGEST_NAME for part in parts)
        or any(fnmatch(part, each) for part in parts for each in _NEVER)
    ):
        raise _bad(f"`{path[:200]}` is not the path of a code file")


def _write(path: Path, stream: IO[bytes], size: int, *, is_executable: bool) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("xb") as out:
        while size:
            part = stream.read(min(size, PIECE))
            if not part:
                raise _bad("it ends before its last file does")
            out.write(part)
            size -= len(part)
    path.chmod(0o755 if is_executable else 0o644)


def _bad(why: str) -> UserError:
    return UserError.of("bad-code", f"the code that was sent cannot be used: {why}", _AGAIN)
