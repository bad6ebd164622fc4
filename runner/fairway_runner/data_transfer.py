"""Uploads and downloads: many files in parallel, verified, and resumed after an interruption."""

from __future__ import annotations

import base64
import errno
import fcntl
import hashlib
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from threading import BoundedSemaphore, Lock
from typing import TYPE_CHECKING, TypeVar

from fairway_agent.access import Blob, path_below, without_folders
from fairway_agent.outputs import draft_of
from fairway_boot.files import AgentError
from fairway_core.findings import Finding, Severity, UserError
from fairway_runner.jobs.project_files import left_out, walk
from fairway_runner.quantities import format_names
from fairway_runner.runs.records import writing

if TYPE_CHECKING:
    from azure.storage.blob import BlobProperties

    from fairway_runner.data_blobs import BlobPath
    from fairway_runner.engines.azure_storage import Storage

T = TypeVar("T")

FILES_AT_ONCE = 16
BLOCKS_AT_ONCE = 16  # per file
BLOCK = 4 * 2**20  # bytes; a large file is transferred in blocks of this size
_MOST_BLOCKS = 40_000  # per blob; the service allows 50,000

Report = Callable[[int], None]
"""Callback that receives each number of bytes that have arrived."""


@dataclass(frozen=True)
class Transferred:
    """The copied files, their size in bytes, and how many existed already."""

    files: tuple[str, ...]
    size: int
    unchanged: int


def block_size(size: int) -> int:
    """Returns the block size for a file of `size` bytes."""
    return max(BLOCK, -(-size // _MOST_BLOCKS))


def digest_of(file: Path) -> bytes:
    """Returns the MD5 of a file, which the service stores with a blob."""
    with file.open("rb") as content:
        return hashlib.file_digest(content, lambda: hashlib.md5(usedforsecurity=False)).digest()


def run_parallel(operation: Callable[[T], None], items: Iterable[T]) -> None:
    """Runs the operation on every item, many in parallel; the first failure ends it."""
    with ThreadPoolExecutor(FILES_AT_ONCE) as pool:
        started = [pool.submit(operation, item) for item in items]
        try:
            for each in as_completed(started):
                each.result()
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


@contextmanager
def blocks_at_once() -> Iterator[Callable[[Callable[[], None]], None]]:
    """Yields a function that starts operations on a file's blocks, few at once to save memory."""
    room = BoundedSemaphore(BLOCKS_AT_ONCE)
    with ThreadPoolExecutor(BLOCKS_AT_ONCE) as pool:
        started = []

        def start(operation: Callable[[], None]) -> None:
            room.acquire()
            future = pool.submit(operation)
            future.add_done_callback(lambda _: room.release())
            started.append(future)
            if future.done():
                future.result()

        yield start
        for each in started:
            each.result()


_ONE = "name a file, or a folder with files"


def files_below(source: Path) -> tuple[dict[str, Path], list[Finding]]:
    """Returns the files of a folder by their paths in it, or one file by its name, and warnings
    about other entries. Raises UserError if there are none, and for unreadable ones."""
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
    others = [each for each in found if not each.is_file and not each.is_folder]
    warnings = [*left_out(others, "the copy")]
    if folders := [each.path for each in found if each.is_folder]:
        message = f"storage has no empty folders, so these are not there: {format_names(folders)}"
        hint = "let the program make them, or put a file into each"
        warnings.append(Finding("empty-folders", message, hint, severity=Severity.WARNING))
    return files, warnings


# Control characters, which no list of blobs can hold, a backslash, which becomes `/`, and what is
# not UTF-8, or not a character.
_ODD = re.compile("[\x00-\x1f\x7f-\x9f\\\\\ud800-\udfff\ufffe\uffff]")


class Upload:
    """Upload of files to a container; each object is run once."""

    def __init__(self, source: Path, at: BlobPath, storage: Storage, *, force: bool) -> None:
        self._storage = storage
        self._at = at
        files, self.warnings = files_below(source)
        self._names = {at.name_of(name): file for name, file in files.items()}
        if source.is_file() and at.path and not at.path.endswith("/"):
            self._names = {at.path: source}
        for name, file in self._names.items():
            if str(PurePosixPath(name)) != name:
                message = f"`{name}` is not a path in a storage account"
                raise UserError.of("bad-place", message, "leave `//` and `/./` out of it")
            if odd := _ODD.search(name):
                message = f"{file}: storage takes no name with U+{ord(odd[0]):04X}"
                hint = "it takes UTF-8 without control characters and `\\`: rename the file"
                raise UserError.of("odd-name", message, hint)
        beginning = os.path.commonprefix(list(self._names))  # noqa: RUF071 - names are no paths
        there = {blob.name: blob for blob in storage.blobs(at.container, beginning)}
        self._new = {
            name: file for name, file in self._names.items() if not _is_same(file, there.get(name))
        }
        taken = [name for name in self._new if name in there]
        if taken and not force:
            message = f"{at} already holds other data: {format_names(taken)}"
            hint = "choose another path, or replace it with --force"
            raise UserError.of("existing-blobs", message, hint, exit_code=3)

    @property
    def size(self) -> int:
        """Bytes to transfer."""
        return sum(file.stat().st_size for file in self._new.values())

    def run(self, report: Report) -> Transferred:
        """Uploads missing files; `report` is called for each block that has arrived."""
        size = self.size

        def send(item: tuple[str, Path]) -> None:
            name, file = item
            try:
                if file.stat().st_size <= BLOCK:
                    self._send_unresumed(name, file, report)
                else:
                    self._send_blocks(name, file, report)
            except OSError as error:
                message = f"{file} cannot be read: {error.strerror}"
                raise UserError.of("unreadable-file", message, f"ls -l {file}") from None

        run_parallel(send, self._new.items())
        return Transferred(tuple(self._new), size, len(self._names) - len(self._new))

    def _send_unresumed(self, name: str, file: Path, report: Report) -> None:
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

        from fairway_runner.engines.azure_calls import ignore_missing

        blob = self._storage.container(self._at.container).get_blob_client(name)
        calls, what = self._storage.calls, f"the blob {name}"
        kept: set[str] = set()
        with ignore_missing():  # an interrupted upload has left some
            _, uncommitted = calls.call(what, lambda: blob.get_block_list("uncommitted"))
            kept = {block.id for block in uncommitted}
        total = hashlib.md5(usedforsecurity=False)
        ids: list[str] = []
        length = block_size(file.stat().st_size)
        with file.open("rb") as content, blocks_at_once() as start:
            while data := content.read(length):
                total.update(data)
                index = len(ids)
                digest = hashlib.sha256(data).hexdigest()[:32]
                block = base64.b64encode(f"{index:06}-{digest}".encode()).decode()
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
        settings = ContentSettings(content_md5=bytearray(total.digest()))
        blocks = [BlobBlock(each) for each in ids]
        calls.call(what, lambda: blob.commit_block_list(blocks, content_settings=settings))


def _is_same(file: Path, blob: BlobProperties | None) -> bool:
    if blob is None or not file.is_file() or blob.size != file.stat().st_size:
        return False
    known = blob.content_settings.content_md5
    return known is not None and bytes(known) == digest_of(file)


class Download:
    """Download of blobs to a folder; each object is run once."""

    def __init__(self, at: BlobPath, folder: Path, storage: Storage, *, force: bool) -> None:
        self._at = at
        self._storage = storage
        self._files = {folder / path: blob for path, blob in _blobs_at(at, storage).items()}
        if not self._files:
            hint = f"look at what is there: fairway data ls {at.target.name}"
            raise UserError.of("no-blobs", f"there is nothing at {at}", hint)
        self._new = {file: blob for file, blob in self._files.items() if not _is_same(file, blob)}
        if wrong := _in_the_way(self._new):
            message = f"a folder in place of a file, or the reverse: {format_names(wrong)}"
            hint = "move what is there, or choose another folder"
            raise UserError.of("existing-files", message, hint, exit_code=3)
        taken = [str(file) for file in self._new if os.path.lexists(file)]
        if taken and not force:
            hint = "choose another folder, or replace them with --force"
            message = f"other files already exist there: {format_names(taken)}"
            raise UserError.of("existing-files", message, hint, exit_code=3)

    @property
    def size(self) -> int:
        """Bytes to transfer."""
        return sum(int(blob.size) for blob in self._new.values())

    def run(self, report: Report) -> Transferred:
        """Downloads missing files; `report` is called for each block that has arrived."""

        def take(item: tuple[Path, BlobProperties]) -> None:
            file, blob = item
            with writing(f"{file} cannot be written", "name another folder"):
                file.parent.mkdir(parents=True, exist_ok=True)
                self._take(file, blob, report)

        run_parallel(take, self._new.items())
        files = tuple(str(file) for file in self._new)
        return Transferred(files, self.size, len(self._files) - len(self._new))

    def _take(self, file: Path, blob: BlobProperties, report: Report) -> None:
        part = draft_of(file, ".part")
        blocks = part.with_name(part.name + ".blocks")
        with _alone(part, file) as descriptor:
            if os.fstat(descriptor).st_size != blob.size:
                blocks.unlink(missing_ok=True)  # of a partial file that is gone
            self._take_blocks(blob, descriptor, _Journal(blocks, str(blob.etag)), report)
            blocks.unlink(missing_ok=True)
            known = blob.content_settings.content_md5
            if known is not None and bytes(known) != digest_of(part):
                part.unlink()
                message = f"{blob.name} arrived damaged: its digest does not match"
                raise UserError.of("bad-digest", message, "try again", exit_code=5)
            part.replace(file)

    def _take_blocks(
        self, blob: BlobProperties, descriptor: int, journal: _Journal, report: Report
    ) -> None:
        size, length = int(blob.size), block_size(int(blob.size))
        container = self._at.container
        os.ftruncate(descriptor, size)
        with blocks_at_once() as start:
            for first in range(0, size, length):
                count = min(length, size - first)
                if first in journal.done:
                    report(count)
                    continue

                def take(first: int = first, count: int = count) -> None:
                    data = self._storage.read(container, str(blob.name), first, count)
                    os.pwrite(descriptor, data, first)
                    if size > BLOCK:
                        journal.add(first)
                    report(count)

                start(take)


def _blobs_at(at: BlobPath, storage: Storage) -> dict[str, BlobProperties]:
    """Returns the blobs at a path by their paths below it, without those that stand for folders.
    Raises UserError for names that no file here can have."""
    found: dict[str, BlobProperties] = {}
    listed = []
    try:
        for blob in storage.blobs(at.container, at.path):
            name = str(blob.name)
            if (path := path_below(name, at.path)) is None:
                continue
            if name != at.path and (at.name_of(path) != name or str(PurePosixPath(path)) != path):
                raise AgentError("bad-input", f"the blob {name} cannot be a file here")
            found[name] = blob
            listed.append(Blob(name, path, int(blob.size), "", ""))
        return {each.path: found[each.name] for each in without_folders(listed)}
    except AgentError as fault:
        hint = "rename it in storage, or copy another path"
        raise UserError.of("bad-blob-name", str(fault), hint) from None


def _in_the_way(files: Collection[Path]) -> list[str]:
    """Returns the folders that are in place of files, and files in place of their folders."""
    above = {folder for file in files for folder in file.parents}
    wrong = [each for each in above if os.path.lexists(each) and not each.is_dir()]
    return sorted(map(str, [*wrong, *(file for file in files if file.is_dir())]))


# Errors of file systems that have no locks.
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP)


@contextmanager
def _alone(part: Path, file: Path) -> Iterator[int]:
    """Opens a file's partial file, or makes it. Raises UserError while another command has it."""
    descriptor = os.open(part, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                if error.errno not in _NO_LOCKS:
                    raise
            if not os.path.samestat(os.fstat(descriptor), part.stat()):
                raise FileNotFoundError
        except (BlockingIOError, FileNotFoundError):  # it may have been completed meanwhile
            message = f"another command copies to {file}"
            hint = "once that has ended, repeat this one"
            raise UserError.of("copying", message, hint, exit_code=3) from None
        yield descriptor
    finally:
        os.close(descriptor)


class _Journal:
    """Journal of the blocks of one version of a blob; `done` are the offsets of those here."""

    def __init__(self, file: Path, version: str) -> None:
        self._file, self._version, self._lock = file, version, Lock()
        try:
            head, *lines = file.read_text(encoding="utf-8").splitlines()
        except (OSError, ValueError):
            head, lines = "", []
        self.done = {int(line) for line in lines if line.isdecimal()} if head == version else set()
        if not self.done:
            file.unlink(missing_ok=True)

    def add(self, first: int) -> None:
        """Records a block whose bytes have been written."""
        with self._lock, self._file.open("a", encoding="utf-8") as file:
            if file.tell() == 0:
                file.write(f"{self._version}\n")
            file.write(f"{first}\n")
