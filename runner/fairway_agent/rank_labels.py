"""The labels that launchers put before the lines of their ranks. Standard library only."""

from __future__ import annotations

import re

# `[1,0]<stdout>: text` with --tag-output, which Open MPI 4 and 5 have (4 leaves out the
# space), and `[0]<stdout>: text` with --output rank, which 5 has, and by the templates' own.
_LABEL = re.compile(rb"\[(?:\d+,)?(\d{1,9})\]<std(?:out|err|diag)>: ?")


def split_label(line: bytes) -> tuple[int | None, bytes]:
    """The rank that a line of a log is labelled with, and the line without the label.

    >>> split_label(b"[1,3]<stdout>: loss 0.5"), split_label(b"loss 0.5")
    ((3, b'loss 0.5'), (None, b'loss 0.5'))
    """
    match = _LABEL.match(line) if line.startswith(b"[") else None
    return (int(match[1]), line[match.end() :]) if match else (None, line)
