"""Writes the page of a run to a file."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from fairway_core.findings import UserError
from fairway_runner.runs.report.page import page

if TYPE_CHECKING:
    from pathlib import Path

    from fairway_runner.runs.store import Run


def write_page(run: Run, file: Path, throughput: str | None = None) -> Path:
    """Writes the page, as a whole or not at all; returns the file.

    UserError where it cannot be written.
    """
    text = page(run, throughput)
    draft = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        draft.write_text(text, encoding="utf-8")
        draft.replace(file)
    except OSError as error:
        draft.unlink(missing_ok=True)
        message = f"{file} cannot be written: {error.strerror}"
        raise UserError.of("unwritable-file", message, "name another with -o") from None
    return file
