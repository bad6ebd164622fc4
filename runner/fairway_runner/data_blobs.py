"""Paths in a storage account: their addresses, listings, and staging from them on a cluster."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fairway_core.documents import FieldError
from fairway_core.findings import UserError
from fairway_core.suggestions import did_you_mean
from fairway_core.yaml_text import unfit_character
from fairway_runner.engines.capabilities import runs_here
from fairway_runner.jobs.job import Job
from fairway_runner.targets.lookup import find_target

if TYPE_CHECKING:
    from datetime import datetime

    from fairway_core.target import Target
    from fairway_runner.engines.azure_storage import Storage

_CONTAINER = re.compile(r"[a-z0-9](-?[a-z0-9]){2,62}")


@dataclass(frozen=True)
class BlobPath:
    """A container of a target's storage account, and a path in it ("" for all of it)."""

    target: Target
    container: str
    path: str

    def __str__(self) -> str:
        return f"{self.target.name}:{self.container}/{self.path}"

    def name_of(self, file: str) -> str:
        """Returns the name of the blob for a file below the path."""
        return f"{self.path.rstrip('/')}/{file}".lstrip("/")


_FORM = "write TARGET:CONTAINER/PATH"


def blob_path(text: str) -> BlobPath:
    """Parses `TARGET:CONTAINER/PATH`. Raises UserError unless it names one of the target's."""
    name, colon, rest = text.partition(":")
    container, _, path = rest.partition("/")
    if not colon or not container:
        raise UserError.of("bad-place", f"`{text}` does not name a container of a target", _FORM)
    if character := unfit_character(rest):
        hint = f"names in storage are UTF-8; see what there is: fairway data ls {name}:{container}"
        raise UserError.of("bad-place", f"`{rest}` holds the character {character}", hint)
    target = find_target(name)
    known = storage_of(target)
    if known and container not in known:
        message = f"the target `{name}` has no storage container `{container}`"
        raise UserError.of("no-container", message, did_you_mean(container, known, most=40))
    if not _CONTAINER.fullmatch(container) or ".." in path.split("/"):
        raise UserError.of("bad-place", f"`{rest}` is not a path in a storage account", _FORM)
    return BlobPath(target, container, path.lstrip("/"))


def storage_of(target: Target) -> tuple[str, ...]:
    """Returns the containers of a target. Raises UserError if it has no storage account."""
    if target.storage is None:
        message = f"the target `{target.name}` has no storage account"
        hint = "give its environment a `storage:` section"
        if runs_here(target.engine):
            hint = "on this machine, data is in folders: see `mounts:` in fairway.yaml"
        raise UserError.of("no-storage", message, hint)
    return target.storage.containers


@dataclass(frozen=True)
class Entry:
    """A blob, or a folder with the number of blobs below it; sizes in bytes."""

    name: str
    size: int
    modified: datetime | None
    blobs: int = 1
    is_folder: bool = False


def entries(at: BlobPath, storage: Storage, *, recursive: bool) -> list[Entry]:
    """Lists the entries at a path, sorted by name; without `recursive` a folder is one entry."""
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


def staging_job(target: Target, source: str, destination: str) -> Job:
    """Returns a job that copies `CONTAINER:PATH` to `MOUNT:PATH`. Raises UserError if that is
    impossible. An interrupted copy is resumed: existing files are not copied again."""
    container, colon, path = source.partition(":")
    if not colon:
        message = f"`{source}` does not say what to copy"
        raise UserError.of("bad-place", message, "write CONTAINER:PATH")
    blob_path(f"{target.name}:{container}/{path}")
    try:
        return Job.model_validate(
            {
                "name": "stage",
                "template": "plain",
                "command": 'du -sh "$FAIRWAY_INPUT_DATA"',
                "inputs": {"data": {"from": source, "stage": "shared", "to": destination}},
            }
        )
    except (ValueError, FieldError):
        message = f"`{destination}` is not a path on the cluster"
        raise UserError.of("bad-place", message, "write MOUNT:PATH") from None
