"""The folder of a project, and its `fairway.yaml`."""

from __future__ import annotations

import os
import shlex
import stat
from contextlib import suppress
from pathlib import Path

from fairway_core.findings import UserError

VARIABLE = "FAIRWAY_FOLDER"
FILE = "fairway.yaml"


def from_home(path: str) -> Path:
    """Returns the path with `~` expanded, except for an unknown user, for which Path fails.

    >>> from_home("~nobody-has-this-name/x")
    PosixPath('~nobody-has-this-name/x')
    """
    return Path(os.path.expanduser(path))  # noqa: PTH111


def find_project(start: Path | None = None) -> tuple[Path, Path | None]:
    """Returns the project's folder, and its `fairway.yaml` if it has one.

    The folder is the one that FAIRWAY_FOLDER names, or the nearest with a `fairway.yaml`, from the
    current folder upwards, or else the current folder. With `start` the search begins there, and
    the variable is ignored. Raises UserError if that folder does not exist, or somebody else may
    have put a project there: see `require_trusted`.
    """
    named = os.environ.get(VARIABLE)
    if start is None and named:
        folder = from_home(named).absolute()
        if not folder.is_dir():
            message = f"{VARIABLE} names {folder}, which is not a folder"
            raise UserError.of("no-folder", message, f"make it, or: unset {VARIABLE}")
        file = folder / FILE
        return folder, file if file.is_file() else None
    if start is not None and not start.is_dir():
        raise UserError.of("no-folder", f"{start} is not a folder", "name that of a project")
    try:
        here = (start or Path()).absolute()
    except FileNotFoundError:
        message = "the current folder was removed"
        raise UserError.of("no-folder", message, "change to one that exists") from None
    for folder in (here, *here.parents):
        if (file := folder / FILE).is_file():
            require_trusted(folder, here, FILE, ".fairway")
            return folder, file
    require_trusted(here, here, FILE, ".fairway")
    return here, None


def require_trusted(folder: Path, here: Path, *names: str) -> None:
    """Raises UserError for a project, with files of these names, of another user. In a folder like
    /tmp everybody may make one, and it would apply to all below.

    A project of root's is fine, and one of the owner of the current folder, which is what root sees
    of a checkout that is mounted into a container, even in a folder there that root has made; so is
    one that a group of ours may write to, or that FAIRWAY_FOLDER names.
    """
    status, named = folder.stat(), os.environ.get(VARIABLE)
    shared = status.st_mode & stat.S_IWGRP and not status.st_mode & (stat.S_IWOTH | stat.S_ISVTX)
    if shared and status.st_gid in {os.getegid(), *os.getgroups()}:
        return
    if named and from_home(named).absolute() == folder:
        return
    trusted = {0, os.geteuid(), here.stat().st_uid}
    if os.geteuid() == 0 and not any(map(_is_open, (folder, *folder.parents))):
        trusted.add(status.st_uid)
    for path in map(folder.joinpath, names):
        with suppress(FileNotFoundError):
            if (owner := path.lstat().st_uid) not in trusted:
                message = f"{path} belongs to another user (uid {owner})"
                hint = f"if you trust this project: export {VARIABLE}={shlex.quote(str(folder))}"
                raise UserError.of("foreign-project", message, hint)


def _is_open(folder: Path) -> bool:
    """Returns True if others than its owner may replace what is in the folder."""
    mode = folder.stat().st_mode
    return bool(mode & (stat.S_IWGRP | stat.S_IWOTH)) and not mode & stat.S_ISVTX
