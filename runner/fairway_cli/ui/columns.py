"""Text on a terminal: columns, colours, and progress bars of transfers.

Columns are written line by line, many times faster than a table of rich: people list thousands of
runs.
"""

from __future__ import annotations

import os
import sys
import unicodedata
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO

from fairway_core.findings import counted, printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from fairway_runner.data_blobs import Entry
    from fairway_runner.data_transfer import Report
    from fairway_runner.engines.engine import Progress

# SGR parameters of ECMA-48.
BOLD, DIM, RED, GREEN, YELLOW, MAGENTA, CYAN = "1", "2", "31", "32", "33", "35", "36"
_COLOURS = {
    "queued": DIM,
    "running": CYAN,
    "succeeded": GREEN,
    "failed": RED,
    "cancelled": YELLOW,
    "lost": MAGENTA,
}


def has_colours(out: TextIO | None = None) -> bool:
    """Returns True if a stream, by default standard output, is a terminal that shows colours."""
    wanted = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return wanted and (out or sys.stdout).isatty()


def columns(
    header: Sequence[str], rows: Iterable[Sequence[str]], colours: Mapping[str, str] = _COLOURS
) -> str:
    """Formats the rows under their header; columns that are empty in every row are left out.
    `colours` maps the text of cells to colours; control characters in a cell are replaced."""
    table = [tuple(map(printable, row)) for row in (header, *rows)]
    kept = [n for n in range(len(header)) if len(table) == 1 or any(row[n] for row in table[1:])]
    widths = [max(_width(row[n]) for row in table) for n in kept]
    coloured, lines = has_colours(), []
    for number, row in enumerate(table):
        cells = [
            _coloured(row[n], BOLD if number == 0 else colours.get(row[n], ""), coloured)
            + " " * (width - _width(row[n]))
            for n, width in zip(kept, widths, strict=True)
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def state(name: str, out: TextIO | None = None) -> str:
    """Formats a state in its colour, if the stream shows colours."""
    return styled(name, _COLOURS.get(name, ""), out)


def styled(text: str, style: str, out: TextIO | None = None) -> str:
    """Formats the text with SGR parameters, if the stream shows colours."""
    return _coloured(text, style, has_colours(out))


def _coloured(text: str, style: str, coloured: bool) -> str:
    return f"\x1b[{style}m{text}\x1b[0m" if coloured and style and text else text


def _width(text: str) -> int:
    if text.isascii():
        return len(text)
    seen = (each for each in text if not unicodedata.combining(each))
    return sum(2 if unicodedata.east_asian_width(each) in "WF" else 1 for each in seen)


@contextmanager
def byte_progress(title: str, size: int, *, quiet: bool = False) -> Iterator[Report]:
    """Yields a function to call with each number of bytes that have arrived."""
    if quiet or not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich import progress as parts
    from rich.console import Console

    text, left = parts.TextColumn("{task.description}"), parts.TimeRemainingColumn()
    shape = (text, parts.BarColumn(), parts.DownloadColumn(), parts.TransferSpeedColumn(), left)
    with parts.Progress(*shape, console=Console(file=sys.stderr)) as progress:
        bar = progress.add_task(title, total=size)
        yield lambda count: progress.update(bar, advance=count)


@contextmanager
def shown_files(title: str, *, quiet: bool = False) -> Iterator[Progress]:
    """Yields a function to call with the number of files that have arrived and of all."""
    if quiet or not sys.stderr.isatty():
        yield lambda _, __: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    shape = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*shape, console=Console(file=sys.stderr)) as progress:
        bar = progress.add_task(title, total=None, visible=False)
        yield lambda done, of: progress.update(bar, completed=done, total=of, visible=True)


def entry_facts(entry: Entry) -> dict[str, Any]:
    """Returns one blob or folder; the size in bytes, the time in ISO 8601."""
    return {
        "name": entry.name,
        "bytes": entry.size,
        "blobs": entry.blobs,
        "modified": entry.modified.isoformat() if entry.modified else None,
    }


def print_entries(entries: Sequence[Entry]) -> None:
    from fairway_runner.quantities import size

    rows = [
        (
            entry.name,
            size(entry.size),
            counted(entry.blobs, "blob") if entry.is_folder else "",
            f"{entry.modified:%Y-%m-%d %H:%M}" if entry.modified else "",
        )
        for entry in entries
    ]
    print(columns(("NAME", "SIZE", "", "MODIFIED"), rows))
