"""Copies blobs to a folder of this node, by its identity: in parallel, and checked."""

from __future__ import annotations

import base64
import hashlib
import http.client
import shutil
import urllib.parse
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from fairway_boot import files
from fairway_boot import http as azure
from fairway_boot.files import Fault
from fairway_boot.identity import bearer, reading

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from fairway_agent.spec import Staged


_RESOURCE = "https://storage.azure.com/"
_VERSION = "2021-12-02"  # of the storage's interface
_THREADS = 16
_TRIES = 4
_CHUNK = 1 << 20
_INDEX = ".fairway.json"  # the version of each file that lies in the folder


@dataclass(frozen=True)
class Blob:
    """A blob: its name, where it goes below the folder, its size, its version, its MD5 if known."""

    name: str
    path: str
    size: int
    etag: str
    md5: str


def stage(entry: Staged, folder: Path) -> int:
    """Brings an entry's blobs into the folder; how many were copied. Fault if it cannot."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o755)
    with files.alone(folder.with_name(f".{folder.name}.lock")):
        blobs = list(_list(entry))
        if not blobs:
            message = f"there is nothing at {entry.container}:{entry.path} to be staged"
            hint = "is its name right? list the container: fairway data ls TARGET:CONTAINER"
            raise Fault("no-input", message, hint, 2)
        index = files.read_json(folder / _INDEX)
        for path in set(index) - {blob.path for blob in blobs}:
            (folder / path).unlink(missing_ok=True)
        missing = [
            b for b in blobs if index.get(b.path) != b.etag or not (folder / b.path).is_file()
        ]
        with ThreadPoolExecutor(_THREADS) as pool:
            list(pool.map(lambda blob: _copy(entry, blob, folder), missing))
        files.write_json(folder / _INDEX, {blob.path: blob.etag for blob in blobs})
    return len(missing)


def _list(entry: Staged) -> Iterator[Blob]:
    """The blobs at a path: one, or all in the folder of that name."""
    path, marker = entry.path, ""
    while True:
        query = {"restype": "container", "comp": "list", "prefix": path, "marker": marker}
        url = f"{entry.account}/{entry.container}?{urllib.parse.urlencode(query)}"
        tree = _page(url, f"the container {entry.container}")
        for element in tree.iter("Blob"):
            name = element.findtext("Name", "")
            if (relative := below(name, path)) is not None:
                keys = ("Content-Length", "Etag", "Content-MD5")
                size, etag, md5 = (element.findtext(f"Properties/{key}") or "" for key in keys)
                yield Blob(name, relative, int(size or 0), etag, md5)
        marker = tree.findtext("NextMarker") or ""
        if not marker:
            return


def _page(url: str, what: str) -> ElementTree.Element:
    """A page of a list, which is asked for again where the connection breaks."""
    why = ""
    for _ in range(_TRIES):
        try:
            with reading(what), azure.stream(url, _headers()) as answer:
                return ElementTree.fromstring(answer.read())  # noqa: S314 - the storage's own
        except (OSError, http.client.HTTPException, ElementTree.ParseError) as error:
            why = str(error) or type(error).__name__
    raise Fault("no-input", f"{what} cannot be listed: {why}", _AGAIN)


def below(name: str, path: str) -> str | None:
    """Path of a blob below the folder of what is staged at `path`; None for one that is not
    meant, or that only marks a folder. Fault for a name that cannot be a file's."""
    base = path.rstrip("/")
    if name == base and not path.endswith("/"):
        return name.rpartition("/")[2]
    if base and not name.startswith(f"{base}/"):
        return None
    relative = name[len(base) :].lstrip("/")
    if not relative or relative.endswith("/"):
        return None
    if ".." in relative.split("/"):
        hint = "rename it in storage, or stage another path"
        raise Fault("bad-input", f"the blob {name} cannot be a file here", hint, 2)
    return relative


_AGAIN = "once that is fixed: fairway retry RUN"


def _headers() -> dict[str, str]:
    return {**bearer(_RESOURCE), "x-ms-version": _VERSION}


def _copy(entry: Staged, blob: Blob, folder: Path) -> None:
    target = folder / blob.path
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f".{target.name}.part")
    part.unlink(missing_ok=True)
    url = f"{entry.account}/{entry.container}/{urllib.parse.quote(blob.name)}"
    why = ""
    for _ in range(_TRIES):
        why = _go_on(url, blob, part)
        if not why:
            part.replace(target)
            return
    part.unlink(missing_ok=True)
    raise Fault("no-input", f"the blob {blob.name} cannot be copied: {why}", _AGAIN)


def _go_on(url: str, blob: Blob, part: Path) -> str:
    """Copies what is missing of a file; why it is not right, or "" where it is."""
    have = part.stat().st_size if part.exists() else 0
    # Not another version than was listed: If-Match.
    headers = {**_headers(), "If-Match": f'"{blob.etag.strip(chr(34))}"'}
    if have:
        headers["Range"] = f"bytes={have}-"
    if have < blob.size or not have:
        try:
            with reading(f"the blob {blob.name}"), azure.stream(url, headers) as answer:
                mode = "ab" if answer.status == http.client.PARTIAL_CONTENT else "wb"
                with part.open(mode) as file:
                    shutil.copyfileobj(answer, file, _CHUNK)
        except (OSError, http.client.HTTPException) as error:
            return str(error) or type(error).__name__
    if part.stat().st_size != blob.size:
        return f"{part.stat().st_size} of {blob.size} bytes came"
    if blob.md5 and _md5(part) != blob.md5:
        part.unlink()
        return "its MD5 is not what the storage says"
    return ""


def _md5(path: Path) -> str:
    digest = hashlib.md5(usedforsecurity=False)
    with path.open("rb") as file:
        while data := file.read(_CHUNK):
            digest.update(data)
    return base64.b64encode(digest.digest()).decode("ascii")
