"""Files that hold secrets in clear text, such as plans."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def write_private(file: Path, text: str) -> None:
    """A file for nobody else to read, in place of one that is there."""
    file.unlink(missing_ok=True)
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
        stream.write(text)


@contextmanager
def private_for_now(file: Path, text: str) -> Iterator[None]:
    """Until it ends the file holds this text, for nobody else to read."""
    before = file.read_text(encoding="utf-8")
    write_private(file, text)
    try:
        yield
    finally:
        write_private(file, before)
