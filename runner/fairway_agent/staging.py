"""Inputs on a node's local disk: its folders, blobs copied there, and cheap copies of files."""

from __future__ import annotations

import base64
import fcntl
import hashlib
import http.client
import os
import shutil
import stat
import sys
import urllib.parse
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from fairway_agent import processes, record
from fairway_agent.resources import CORES, numbers_of, ranges
from fairway_boot import http as azure
from fairway_boot.cluster import own_name
from fairway_boot.files import Fault
from fairway_boot.identity import bearer, reading

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from fairway_agent.allocators.hosts import Host
    from fairway_agent.spec import Staged


# Of every process of an attempt; not FAIRWAY_…, which launchers pass on to other nodes.
LEASE = "_FAIRWAY_LEASE"

_SHARE = "share:"
_NVME = Path("/mnt/resource_nvme")
_GRACE = 5.0  # seconds for what another run has left on the node


def root() -> Path:
    """The node's local NVMe disks where it has any, else its folder for temporary files."""
    base = _NVME if os.access(_NVME, os.W_OK) else Path("/var/tmp")  # noqa: S108 - a folder for each user
    return base / f"fairway-{os.getuid()}"


def lease(run: Path, task: str, attempt: int, nodes: Sequence[Host]) -> str:
    """Returns the lease of an attempt: its number, the names of its nodes, since the main host may
    start programs elsewhere, and before them its share of a node, if it has only a share."""
    share = nodes[0].share if nodes else None
    own = f"#{_SHARE}{ranges(share.numbers)}" if share is not None else ""
    return f"{run}#{task}#{attempt}{own}#{','.join(host.name for host in nodes)}"


def input_folder(shared: Path, entry: Staged) -> Path:
    """Where a staged input lies: where the job says, or the same folder for the same blobs."""
    if entry.to is not None:
        return Path(entry.to)
    key = f"{entry.account}\0{entry.container}\0{entry.path}"
    name = hashlib.sha256(key.encode()).hexdigest()[:16]
    return (shared if entry.stage == "shared" else root()) / "inputs" / name


def prepare(environment: Mapping[str, str]) -> None:
    """Makes the attempt's own folder, and ends and removes what others have left behind.

    The caller's run has this node, or its share of it, for itself: whatever else carries a lease
    of the same devices is a leftover of a run whose supervisor was killed. In Slurm's jobs nothing
    does: see `slurm.leftovers`.
    """
    if LEASE in environment:
        _end_leftovers(f"{LEASE}={environment[LEASE]}")
    others = Others.GONE
    if CORES in environment:
        # Slurm's tasks remove their own, and may have made one before they have a process.
        others = Others.ALIVE if LEASE in environment else Others.KEPT
    make(Path(environment["FAIRWAY_SCRATCH_DIR"]), others)


class Others(Enum):
    """Folders of other tasks that may be in use: none, if a task has an entire node; those of tasks
    with a live process; or any."""

    GONE = "gone"
    ALIVE = "alive"
    KEPT = "kept"


def make(folder: Path, others: Others = Others.GONE) -> None:
    """Makes a task's own folder, and removes what others have left beside it."""
    folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    found = list(folder.parent.iterdir())
    # After the look: a task has a process before it makes its folder.
    alive = _alive() if others is Others.ALIVE else set()
    for other in found:
        is_left = others is not Others.KEPT and other.name not in alive
        if other == folder or is_left:
            shutil.rmtree(other, ignore_errors=True)
    folder.mkdir(mode=0o700)


def _alive() -> set[str]:
    """The names of the folders of all tasks of which a process lives here."""
    found = set()
    for _, variables in processes.environments():
        told = dict(each.partition("=")[::2] for each in variables)
        found.add(f"{told.get('FAIRWAY_RUN')}-{told.get('FAIRWAY_TASK')}")
    return found


def _end_leftovers(own: str) -> None:
    name, mine = own_name(), _share_of(own)

    def is_left(variable: str) -> bool:
        if not variable.startswith(f"{LEASE}=") or variable == own:
            return False
        theirs = _share_of(variable)
        # Where one of the two has the whole node, the other cannot be there.
        is_same = mine is None or theirs is None or not mine.isdisjoint(theirs)
        return is_same and name in variable.rpartition("#")[2].split(",")

    processes.end(processes.sessions_with(is_left) - {os.getsid(0)}, _GRACE)


def _share_of(variable: str) -> set[int] | None:
    """The devices that a lease is about; None where it is about whole nodes."""
    _, _, share = variable.rpartition("#")[0].rpartition("#")
    if not share.startswith(_SHARE):
        return None
    try:
        return set(numbers_of(share.removeprefix(_SHARE)))
    except ValueError:
        return None


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
    """Brings the blobs of `account`, `container` and `path` into the folder; how many were
    copied. Fault where that is not possible."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o755)
    with record.alone(folder.with_name(f".{folder.name}.lock")):
        return _update(entry, folder)


def _update(entry: Staged, folder: Path) -> int:
    blobs = list(_list(entry))
    if not blobs:
        message = f"there is nothing at {entry.container}:{entry.path} to be staged"
        hint = "is its name right? list the container: fairway data ls TARGET:CONTAINER"
        raise Fault("no-input", message, hint, 2)
    index = record.read_json(folder / _INDEX)
    for path in set(index) - {blob.path for blob in blobs}:
        (folder / path).unlink(missing_ok=True)
    missing = [b for b in blobs if index.get(b.path) != b.etag or not (folder / b.path).is_file()]
    with ThreadPoolExecutor(_THREADS) as pool:
        list(pool.map(lambda blob: _copy(entry, blob, folder), missing))
    record.write_json(folder / _INDEX, {blob.path: blob.etag for blob in blobs})
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
                yield _blob(element, name, relative)
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


def _blob(element: ElementTree.Element, name: str, path: str) -> Blob:
    def text(key: str) -> str:
        return element.findtext(f"Properties/{key}") or ""

    return Blob(name, path, int(text("Content-Length") or 0), text("Etag"), text("Content-MD5"))


def below(name: str, path: str) -> str | None:
    """Where a blob goes below the folder of what is staged at `path`; None for one that is not
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
        raise Fault("bad-input", f"the blob {name} cannot be a file here", _RENAME, 2)
    return relative


_RENAME = "rename it in storage, or stage another path"
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
                _save(answer, part)
        except (OSError, http.client.HTTPException) as error:
            return str(error) or type(error).__name__
    if part.stat().st_size != blob.size:
        return f"{part.stat().st_size} of {blob.size} bytes came"
    if blob.md5 and _md5(part) != blob.md5:
        part.unlink()
        return "its MD5 is not what the storage says"
    return ""


def _save(answer: http.client.HTTPResponse, part: Path) -> None:
    with part.open("ab" if answer.status == http.client.PARTIAL_CONTENT else "wb") as file:
        while data := answer.read(_CHUNK):
            file.write(data)


def _md5(path: Path) -> str:
    digest = hashlib.md5(usedforsecurity=False)
    with path.open("rb") as file:
        while data := file.read(_CHUNK):
            digest.update(data)
    return base64.b64encode(digest.digest()).decode("ascii")


_FICLONE = 0x40049409  # Linux, include/uapi/linux/fs.h


def copy(source: str | Path, target: str | Path, *, follow_symlinks: bool = True) -> str:
    """As `shutil.copy2`, also for `shutil.copytree`; the target is no folder."""
    if (follow_symlinks or not os.path.islink(source)) and _cloned(source, target):  # noqa: PTH114
        shutil.copystat(source, target)
        return str(target)
    return str(shutil.copy2(source, target, follow_symlinks=follow_symlinks))


def _cloned(source: str | Path, target: str | Path) -> bool:
    """Clones the source into the target; returns True if that worked. Otherwise the target may be
    left empty."""
    if sys.platform != "linux" or not stat.S_ISREG(os.stat(source).st_mode):  # noqa: PTH116
        return False
    try:
        with open(source, "rb") as old, open(target, "wb") as new:  # noqa: PTH123
            fcntl.ioctl(new, _FICLONE, old.fileno())
    except OSError:
        return False
    return True
