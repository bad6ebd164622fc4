"""Layout of a node's files, and how its processes see them.

Every node has the folder `nodes/<id>` in the simulator's folder. If namespaces are available, each
node mounts its own over `node`, so that one path leads to another folder on each node, as on real
ones; otherwise a node's paths contain its id.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairway_simulator.batch.agent.supervisor_client import Setting, namespaces

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from fairway_simulator.batch.model.pool import Node


NAME = "_azbatch"
_ID = 60_001  # of the user and its group; below the ids that systemd assigns dynamically

# Writable by all users, as AZ_BATCH_NODE_SHARED_DIR and the mounts of pools are.
OPEN = 0o1777


def id_of(identity: Mapping[str, Any] | None) -> int | None:
    """Returns the id of the user that a task with this `userIdentity` runs as; None for the
    simulator's own user."""
    level = str(((identity or {}).get("autoUser") or {}).get("elevationLevel") or "nonadmin")
    return None if os.geteuid() != 0 or level.lower() == "admin" else _ID


def own(folder: Path, identity: Mapping[str, Any] | None) -> None:
    """Makes the user of a task the owner of a folder and its contents."""
    user = id_of(identity)
    if user is None:
        return
    for path in (folder, *folder.rglob("*")):
        os.chown(path, user, user, follow_symlinks=False)


def passwd_line(home: str) -> str:
    return f"{NAME}:*:{_ID}:{_ID}::{home}:/bin/bash"


# Folders that each node has for itself: for temporary files, and the mount point of disks.
_TEMPORARY = {
    "tmp": Path("/tmp"),  # noqa: S108
    "var-tmp": Path("/var/tmp"),  # noqa: S108
    "shm": Path("/dev/shm"),  # noqa: S108
    "mnt": Path("/mnt"),
}
_TEMPORARY = {name: top for name, top in _TEMPORARY.items() if top.is_dir()}
_PYTHON = (sys.prefix, sys.base_prefix)
_PROGRAMS = Path(__file__).parents[1]


class Layout:
    """The simulator's folder. Nodes also see `mounts`, at the same paths as this machine."""

    def __init__(self, folder: Path, mounts: Sequence[Path] = ()) -> None:
        self.folder = folder.resolve()
        if os.geteuid() == 0:
            # `fairway exec` starts processes as the task's user, without the right to read all.
            self.folder.chmod(self.folder.stat().st_mode | 0o011)
        self._kept = [path.resolve() for path in mounts]
        self.nodes = self.folder / "nodes"
        self.shared = self.folder / "mounts" / "shared"
        """Folder that stands for a file server, mounted on every node."""
        self._common = self.folder / "node"
        # Files of an earlier account's nodes belong to jobs that no longer exist.
        shutil.rmtree(self.nodes, ignore_errors=True)
        for path in (self.nodes, self.shared, self._common):
            path.mkdir(parents=True, exist_ok=True)
        self.shared.chmod(OPEN)

    def root(self, node: Node) -> str:
        """Returns AZ_BATCH_NODE_ROOT_DIR: the node's folder as its processes see it."""
        return str(self._common if namespaces() else node.folder)

    def setting(self, node: Node, *binds: tuple[str, str]) -> Setting:
        """Returns the setting of the node's supervisors, with `binds` as additional mounts."""
        hosts = (str(self._hosts(node)), "/etc/hosts")
        passwd = (str(self._passwd(node)), "/etc/passwd")
        own = (str(node.folder), str(self._common))
        return Setting(node.name, (own, hosts, passwd, *binds, *self._temporary(node)))

    def make(self, node: Node, peers: Iterable[Node]) -> None:
        """Makes the folders of a node that boots, with the host names of the node and its peers."""
        for name in ("workitems", "startup/wd", "fsmounts", "applications"):
            (node.folder / name).mkdir(parents=True, exist_ok=True)
        for name in ("shared", *_TEMPORARY):
            (node.folder / name).mkdir(exist_ok=True)
            if name != "mnt":  # root owns it
                (node.folder / name).chmod(OPEN)
        for name, top in _TEMPORARY.items():
            for seen in self._seen(top):
                (node.folder / name / seen).mkdir(parents=True, exist_ok=True)
        link = node.folder / "fsmounts" / "shared"
        if not link.is_symlink():
            link.symlink_to(self.shared)
        lines = ["127.0.0.1 localhost", *(f"{peer.address} {peer.name}" for peer in peers)]
        self._hosts(node).write_text("\n".join(lines) + "\n")
        known = Path("/etc/passwd").read_text(encoding="utf-8", errors="surrogateescape")
        line = passwd_line(f"{self.root(node)}/workitems")
        self._passwd(node).write_text(f"{known}{line}\n", "utf-8", "surrogateescape")

    def _temporary(self, node: Node) -> Iterator[tuple[str, str]]:
        """Yields the mounts of a node's own temporary folders. Paths below them that the node needs
        from this machine come first, as they can no longer be reached afterwards."""
        for name, top in _TEMPORARY.items():
            for seen in self._seen(top):
                yield str(top / seen), str(node.folder / name / seen)
            yield str(node.folder / name), str(top)

    def _seen(self, top: Path) -> list[Path]:
        """Returns the paths below a temporary folder that nodes see too, none inside another: the
        simulator's own files, programs, and `mounts`."""
        around = self.folder.parent
        own = self.folder if around in _TEMPORARY.values() else around
        wanted = {path.resolve() for path in (own, _PROGRAMS, *map(Path, _PYTHON), *self._kept)}
        below = sorted(path.relative_to(top) for path in wanted if path.is_relative_to(top))
        return [path for path in below if not any(other in path.parents for other in below)]

    def clear(self, node: Node) -> None:
        shutil.rmtree(node.folder, ignore_errors=True)

    def _hosts(self, node: Node) -> Path:
        return self.nodes / f"{node.id}.hosts"

    def _passwd(self, node: Node) -> Path:
        return self.nodes / f"{node.id}.passwd"
