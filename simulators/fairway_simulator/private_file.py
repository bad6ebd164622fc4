"""Files of a stand-in that only its owner may read: keys, and variables that hold them."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def write_private(file: Path, text: str) -> None:
    """Writes the file all at once."""
    descriptor, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
    with os.fdopen(descriptor, "w") as stream:
        stream.write(text)
    Path(name).replace(file)


def make_own(folder: Path) -> bool:
    """Makes a folder that nobody else can look into; whether one that was there is one's own."""
    folder.mkdir(mode=0o700, exist_ok=True)
    facts = folder.lstat()
    return folder.is_dir() and not folder.is_symlink() and facts.st_uid == os.getuid()
