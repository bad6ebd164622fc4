"""From files here to blobs: many at once, checked, and going on where an upload was cut off.

A large file travels in blocks whose ids hold the digests of what is in them. The service
keeps blocks of an unfinished upload for a week, so that the next one leaves them out.
"""

from __future__ import annotations

import base64
import hashlib
from itertools import takewhile
from typing import TYPE_CHECKING

from fairway_core.findings import Finding, Severity, UserError
from fairway_core.yaml_text import unfit_character
from fairway_runner.data.transfer import (
    BLOCK,
    Transferred,
    at_once,
    block_size,
    blocks_at_once,
    digest_of,
)
from fairway_runner.jobs.walk import left_out, walk
from fairway_runner.quantities import few

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from azure.storage.blob import BlobProperties

    from fairway_runner.data.blob_path import BlobPath
    from fairway_runner.data.transfer import Report
    from fairway_runner.engines.azure.storage import Storage


_ONE = "name a file, or a folder with files"


def files_below(source: Path) -> tuple[dict[str, Path], list[Finding]]:
    """The files of a folder by their paths in it, or one file by its name, and what a person should
    hear of the rest; UserError for none, and for what cannot be read."""
    if source.is_file():
        return {source.name: source}, []
    if not source.is_dir():
        raise UserError.of("no-files", f"there is no file or folder {source}", _ONE)
    try:
        found = sorted(walk(source), key=lambda each: each.path)
    except OSError as error:
        message = f"{error.filename}: {error.strerror}"
        raise UserError.of("unreadable", message, "make it readable, or remove it") from None
    files = {each.path: source / each.path for each in found if each.is_file}
    if not files:
        raise UserError.of("no-files", f"{source} holds no files", _ONE)
    folders = [each.path for each in found if each.is_folder]
    others = [each for each in found if not each.is_file and not each.is_folder]
    return files, [*left_out(others, "the copy"), *_empty(folders)]


def _empty(folders: list[str]) -> list[Finding]:
    if not folders:
        return []
    message = f"storage has no empty folders, so these are not there: {few(folders)}"
    hint = "let the program make them, or put a file into each"
    return [Finding("empty-folders", message, hint, severity=Severity.WARNING)]


def _require_text(names: Mapping[str, Path]) -> None:
    """UserError for a file whose name is not UTF-8: in storage every name is."""
    for name, file in names.items():
        if unfit_character(name):
            message = f"{file}: its name is not UTF-8, as names in storage must be"
            raise UserError.of("odd-name", message, "rename the file, or leave it out")


class Upload:
    """Files on their way to a container; made once, `run` once."""

    def __init__(self, source: Path, at: BlobPath, storage: Storage, *, force: bool) -> None:
        self._storage = storage
        self._at = at
        self._names = self._blob_names(source)
        _require_text(self._names)
        there = {blob.name: blob for blob in storage.blobs(at.container, self._beginning())}
        self._new = {
            name: file for name, file in self._names.items() if not _is_same(file, there.get(name))
        }
        if not force:
            self._require_free(there)

    @property
    def size(self) -> int:
        """The bytes that are to travel."""
        return sum(file.stat().st_size for file in self._new.values())

    def run(self, report: Report) -> Transferred:
        """Uploads what is not there; `report` is told of each piece that has arrived."""
        size = self.size

        def send(item: tuple[str, Path]) -> None:
            name, file = item
            try:
                if file.stat().st_size <= BLOCK:
                    self._send_whole(name, file, report)
                else:
                    self._send_blocks(name, file, report)
            except OSError as error:
                message = f"{file} cannot be read: {error.strerror}"
                raise UserError.of("unreadable-file", message, f"ls -l {file}") from None

        at_once(send, self._new.items())
        return Transferred(tuple(self._new), size, len(self._names) - len(self._new))

    def _blob_names(self, source: Path) -> dict[str, Path]:
        files, self.warnings = files_below(source)
        if source.is_file() and self._at.path and not self._at.path.endswith("/"):
            return {self._at.path: source}
        return {self._at.name_of(name): file for name, file in files.items()}

    def _beginning(self) -> str:
        """How the names of all the blobs begin."""
        first, last = min(self._names), max(self._names)
        same = takewhile(lambda pair: pair[0] == pair[1], zip(first, last, strict=False))
        return "".join(character for character, _ in same)

    def _require_free(self, there: Mapping[str, BlobProperties]) -> None:
        taken = [name for name in self._new if name in there]
        if taken:
            message = f"{self._at} already holds other data: {few(taken)}"
            hint = "choose another path, or replace it with --force"
            raise UserError.of("existing-blobs", message, hint, exit_code=3)

    def _send_whole(self, name: str, file: Path, report: Report) -> None:
        from azure.storage.blob import ContentSettings

        data = file.read_bytes()
        digest = hashlib.md5(data, usedforsecurity=False).digest()
        settings = ContentSettings(content_md5=bytearray(digest))
        client = self._storage.container(self._at.container)
        self._storage.calls.call(
            f"the blob {name}",
            lambda: client.upload_blob(
                name, data, overwrite=True, content_settings=settings, validate_content=True
            ),
        )
        report(len(data))

    def _send_blocks(self, name: str, file: Path, report: Report) -> None:
        from azure.storage.blob import BlobBlock, ContentSettings

        blob = self._storage.container(self._at.container).get_blob_client(name)
        calls, what = self._storage.calls, f"the blob {name}"
        kept = self._kept_blocks(name)
        whole = hashlib.md5(usedforsecurity=False)
        ids: list[str] = []
        length = block_size(file.stat().st_size)
        with file.open("rb") as content, blocks_at_once() as start:
            while data := content.read(length):
                whole.update(data)
                block = _block_id(len(ids), data)
                ids.append(block)
                if block in kept:
                    report(len(data))
                    continue

                def send(data: bytes = data, block: str = block) -> None:
                    calls.call(
                        what,
                        lambda: blob.stage_block(block, data, len(data), validate_content=True),
                    )
                    report(len(data))

                start(send)
        settings = ContentSettings(content_md5=bytearray(whole.digest()))
        blocks = [BlobBlock(each) for each in ids]
        calls.call(what, lambda: blob.commit_block_list(blocks, content_settings=settings))

    def _kept_blocks(self, name: str) -> set[str]:
        """The blocks that an upload which was cut off has left."""
        from fairway_runner.engines.azure.calls import ServiceError

        blob = self._storage.container(self._at.container).get_blob_client(name)
        try:
            _, uncommitted = self._storage.calls.call(
                f"the blob {name}", lambda: blob.get_block_list("uncommitted")
            )
        except ServiceError as error:
            if error.is_missing:
                return set()
            raise
        return {block.id for block in uncommitted}


def _block_id(index: int, data: bytes) -> str:
    """All ids of one blob are equally long, as the service wants them."""
    digest = hashlib.sha256(data).hexdigest()[:32]
    return base64.b64encode(f"{index:06}-{digest}".encode()).decode()


def _is_same(file: Path, blob: BlobProperties | None) -> bool:
    if blob is None or blob.size != file.stat().st_size:
        return False
    known = blob.content_settings.content_md5
    return known is not None and bytes(known) == digest_of(file)
