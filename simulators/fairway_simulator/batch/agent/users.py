"""The user that runs a task on a node: not root, unless the task asks for an administrator.

See AutoUserSpecification.elevation_level of azure-batch, whose default is `nonadmin`. Where the
simulator is not root itself, everything is its own user's.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

NAME = "_azbatch"
_ID = 60_001  # of the user and of its group; below those that systemd gives away

# Everybody's, as AZ_BATCH_NODE_SHARED_DIR is and what pools mount.
OPEN = 0o1777


def id_of(identity: Mapping[str, Any] | None) -> int | None:
    """The id of the user that a task with this `userIdentity` runs as; None for the simulator's
    own, which is root."""
    level = str(((identity or {}).get("autoUser") or {}).get("elevationLevel") or "nonadmin")
    return None if os.geteuid() != 0 or level.lower() == "admin" else _ID


def own(folder: Path, identity: Mapping[str, Any] | None) -> None:
    """Gives a folder, with all that is in it, to the user of a task."""
    user = id_of(identity)
    if user is None:
        return
    for path in (folder, *folder.rglob("*")):
        os.chown(path, user, user, follow_symlinks=False)


def passwd_line(home: str) -> str:
    """The user's line in a node's /etc/passwd."""
    return f"{NAME}:*:{_ID}:{_ID}::{home}:/bin/bash"
