"""Copies of files that share their bytes until one of the two is changed, where the file system can
do that, as XFS, Btrfs and NFS with these can; elsewhere the bytes are written again. Standard
library only.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_FICLONE = 0x40049409  # Linux, include/uapi/linux/fs.h


def copy(source: str | Path, target: str | Path, *, follow_symlinks: bool = True) -> str:
    """As `shutil.copy2`, also for `shutil.copytree`; the target is no folder."""
    if (follow_symlinks or not os.path.islink(source)) and _cloned(source, target):  # noqa: PTH114
        shutil.copystat(source, target)
        return str(target)
    return str(shutil.copy2(source, target, follow_symlinks=follow_symlinks))


def _cloned(source: str | Path, target: str | Path) -> bool:
    """Whether the target has the bytes of the source now; where not, it may be empty."""
    if sys.platform != "linux" or not stat.S_ISREG(os.stat(source).st_mode):  # noqa: PTH116
        return False
    try:
        with open(source, "rb") as old, open(target, "wb") as new:  # noqa: PTH123
            fcntl.ioctl(new, _FICLONE, old.fileno())
    except OSError:
        return False
    return True
