"""The file that a command writes its result to, as `-o` names it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairway_boot.files import write_bytes
from fairway_core.findings import UserError

if TYPE_CHECKING:
    from pathlib import Path


def write_output(file: Path, text: str) -> Path:
    """Writes the file, as a whole or not at all, and returns it; UserError where it cannot."""
    if file.is_dir():  # `.` has no name of which a draft's could be made
        hint = f"name a file in it, for example {file / 'result'}"
        raise UserError.of("unwritable-file", f"{file} is a directory", hint)
    try:
        write_bytes(file, text.encode())
    except OSError as error:
        message = f"{file} cannot be written: {error.strerror}"
        raise UserError.of("unwritable-file", message, "name another with -o") from None
    return file
