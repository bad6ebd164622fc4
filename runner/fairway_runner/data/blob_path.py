"""Where in a storage account: `TARGET:CONTAINER/PATH`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fairway_core.findings import UserError
from fairway_core.suggestions import did_you_mean
from fairway_core.yaml_text import unfit_character
from fairway_runner.engines.capabilities import runs_here
from fairway_runner.targets.lookup import find_target

if TYPE_CHECKING:
    from fairway_core.target import Target

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
        """The name of the blob of a file below the path."""
        return f"{self.path.rstrip('/')}/{file}".lstrip("/")


_FORM = "write TARGET:CONTAINER/PATH"


def blob_path(text: str) -> BlobPath:
    """Reads `TARGET:CONTAINER/PATH`; UserError where it is none, or the target has no such
    container."""
    name, colon, rest = text.partition(":")
    container, _, path = rest.partition("/")
    if not colon or not container:
        message = f"`{text}` does not name a container of a target"
        raise UserError.of("bad-place", message, _FORM)
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
    """The containers of a target; UserError where it has no storage account."""
    if target.storage is None:
        message = f"the target `{target.name}` has no storage account"
        hint = "give its environment a `storage:` section"
        if runs_here(target.engine):
            hint = "on this machine, data is in folders: see `mounts:` in fairway.yaml"
        raise UserError.of("no-storage", message, hint)
    return target.storage.containers
