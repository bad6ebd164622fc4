"""What lies in a storage account."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime

    from fairway_runner.data.blob_path import BlobPath
    from fairway_runner.engines.azure.storage import Storage


@dataclass(frozen=True)
class Entry:
    """A blob, or a folder with the number of blobs below it; sizes in bytes."""

    name: str
    size: int
    modified: datetime | None
    blobs: int = 1
    is_folder: bool = False


def entries(at: BlobPath, storage: Storage, *, recursive: bool) -> list[Entry]:
    """What lies at a path, in the order of the names; without `recursive` a folder is one entry."""
    path = at.path
    below = path if not path or path.endswith("/") else f"{path}/"
    found: dict[str, Entry] = {}
    for blob in storage.blobs(at.container, path):
        name, size = str(blob.name), int(blob.size)
        if name != path and not name.startswith(below):
            continue
        head, slash, _ = name[len(below) :].partition("/")
        if name == path or recursive or not slash:
            found[name] = Entry(name, size, blob.last_modified)
            continue
        folder = f"{below}{head}/"
        known = found.get(folder, Entry(folder, 0, None, 0, is_folder=True))
        found[folder] = Entry(
            folder,
            known.size + size,
            max(filter(None, (known.modified, blob.last_modified)), default=None),
            known.blobs + 1,
            is_folder=True,
        )
    return [found[name] for name in sorted(found)]
