"""From blobs to files here: many at once, checked, and going on where a download was cut off.

Beside a large file that is on its way lie `.NAME.part` and `.NAME.part.blocks`: its bytes so
far, and which of its blocks are among them, for one version of the blob.
"""

from __future__ import annotations

import os
from pathlib import Path, PurePosixPath
from threading import Lock
from typing import TYPE_CHECKING

from fairway_core.findings import UserError
from fairway_runner.data.transfer import (
    BLOCK,
    Transferred,
    at_once,
    block_size,
    blocks_at_once,
    digest_of,
)
from fairway_runner.quantities import few

if TYPE_CHECKING:
    from azure.storage.blob import BlobProperties

    from fairway_runner.data.blob_path import BlobPath
    from fairway_runner.data.transfer import Report
    from fairway_runner.engines.azure.storage import Storage


class Download:
    """Blobs on their way to a folder; made once, `run` once."""

    def __init__(self, at: BlobPath, folder: Path, storage: Storage, *, force: bool) -> None:
        self._at = at
        self._storage = storage
        self._files = self._wanted(folder)
        self._new = {file: blob for file, blob in self._files.items() if not _is_same(file, blob)}
        taken = [str(file) for file in self._new if os.path.lexists(file)]
        if taken and not force:
            hint = "choose another folder, or replace them with --force"
            message = f"other files already exist there: {few(taken)}"
            raise UserError.of("existing-files", message, hint, exit_code=3)

    @property
    def size(self) -> int:
        """The bytes that are to travel."""
        return sum(int(blob.size) for blob in self._new.values())

    def run(self, report: Report) -> Transferred:
        """Downloads what is not there; `report` is told of each piece that has arrived."""

        def take(item: tuple[Path, BlobProperties]) -> None:
            file, blob = item
            try:
                file.parent.mkdir(parents=True, exist_ok=True)
                self._take(file, blob, report)
            except OSError as error:
                message = f"{file} cannot be written: {error.strerror}"
                raise UserError.of("unwritable-folder", message, "name another folder") from None

        at_once(take, self._new.items())
        files = tuple(str(file) for file in self._new)
        return Transferred(files, self.size, len(self._files) - len(self._new))

    def _wanted(self, folder: Path) -> dict[Path, BlobProperties]:
        path = self._at.path
        found = {}
        for blob in self._storage.blobs(self._at.container, path):
            name = str(blob.name)
            if name == path:
                found[folder / PurePosixPath(name).name] = blob
            elif not path or path.endswith("/") or name.startswith(f"{path}/"):
                found[folder / _inside(name[len(path) :].lstrip("/"), name)] = blob
        if not found:
            hint = f"look at what is there: fairway data ls {self._at.target.name}"
            raise UserError.of("no-blobs", f"there is nothing at {self._at}", hint)
        return found

    def _take(self, file: Path, blob: BlobProperties, report: Report) -> None:
        part = file.with_name(f".{file.name[:200]}.part")
        blocks = part.with_name(part.name + ".blocks")
        self._take_blocks(blob, part, _Journal(blocks, str(blob.etag)), report)
        known = blob.content_settings.content_md5
        if known is not None and bytes(known) != digest_of(part):
            part.unlink()
            blocks.unlink(missing_ok=True)
            message = f"{blob.name} arrived damaged: its digest does not match"
            raise UserError.of("bad-digest", message, "try again", exit_code=5)
        part.replace(file)
        blocks.unlink(missing_ok=True)

    def _take_blocks(
        self, blob: BlobProperties, part: Path, journal: _Journal, report: Report
    ) -> None:
        size, length = int(blob.size), block_size(int(blob.size))
        container = self._at.container
        descriptor = os.open(part, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            os.ftruncate(descriptor, size)
            with blocks_at_once() as start:
                for first in range(0, size, length):
                    count = min(length, size - first)
                    if journal.has(first):
                        report(count)
                        continue

                    def take(first: int = first, count: int = count) -> None:
                        data = self._storage.read(container, str(blob.name), first, count)
                        os.pwrite(descriptor, data, first)
                        journal.add(first, keep=size > BLOCK)
                        report(count)

                    start(take)
        finally:
            os.close(descriptor)


class _Journal:
    """Which blocks of one version of a blob have arrived."""

    def __init__(self, file: Path, version: str) -> None:
        self._file, self._version, self._lock = file, version, Lock()
        try:
            head, *lines = file.read_text(encoding="utf-8").splitlines()
        except (OSError, ValueError):
            head, lines = "", []
        self._done = {int(line) for line in lines if line.isdecimal()} if head == version else set()
        if not self._done:
            file.unlink(missing_ok=True)

    def has(self, first: int) -> bool:
        """Whether the block that begins there is among them."""
        return first in self._done

    def add(self, first: int, *, keep: bool) -> None:
        """Notes a block, whose bytes have been written; `keep` is for large blobs."""
        if not keep:
            return
        with self._lock, self._file.open("a", encoding="utf-8") as file:
            if file.tell() == 0:
                file.write(f"{self._version}\n")
            file.write(f"{first}\n")


_RENAME = "rename it in storage, or copy another path"


def _inside(path: str, name: str) -> PurePosixPath:
    """A path that stays in its folder, whatever the blob is named."""
    found = PurePosixPath(path)
    if found.is_absolute() or ".." in found.parts or not found.parts:
        raise UserError.of("bad-blob-name", f"the blob `{name}` cannot be a file here", _RENAME)
    return found


def _is_same(file: Path, blob: BlobProperties) -> bool:
    if not file.is_file() or file.stat().st_size != blob.size:
        return False
    known = blob.content_settings.content_md5
    return known is not None and bytes(known) == digest_of(file)
