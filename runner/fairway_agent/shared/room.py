"""Checks that the shared folder can be used, for its targets' health."""

from __future__ import annotations

import shutil
import tempfile
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_SOME = b"x" * 4096  # over its quota a folder still takes files without any byte


def probe(shared: Path) -> tuple[int, str]:
    """How many bytes are free there, and why nothing can be written; "" where it can."""
    try:
        shared.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=shared) as file:
            file.write(_SOME)
            file.flush()
    except OSError as error:
        return _free(shared), error.strerror or str(error)
    return _free(shared), ""


def _free(shared: Path) -> int:
    """Of the folder, or of the nearest above it that can be looked at."""
    for folder in (shared, *shared.parents):
        try:
            return shutil.disk_usage(folder).free
        except OSError:
            continue
    return 0
