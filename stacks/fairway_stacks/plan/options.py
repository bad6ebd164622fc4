"""What `fairway plan` and `fairway deploy` have in common: messages and errors."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from fairway_core.findings import UserError, format_finding

if TYPE_CHECKING:
    from collections.abc import Iterator


def say(line: str) -> None:
    """Progress goes to standard error: standard output is for the review."""
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def tell(error: UserError) -> None:
    """A user's error as its findings."""
    for finding in error.findings:
        say(format_finding(finding))


@contextmanager
def files_can_be_written() -> Iterator[None]:
    """Makes a UserError of a file or a folder that cannot be written."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            raise
        message = f"{error.filename}: {error.strerror}"
        raise UserError.of("cannot-write", message, "name another file or folder") from None
