"""Bytes and files on their way: a bar on a terminal, nothing elsewhere."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from threading import Lock
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fairway_runner.data.blobs import Entry
    from fairway_runner.data.transfer import Report
    from fairway_runner.engines.engine import Progress


@contextmanager
def shown(title: str, size: int, *, quiet: bool = False) -> Iterator[Report]:
    """A function that is told of each number of bytes that have arrived."""
    if quiet or not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich import progress as parts
    from rich.console import Console

    text, left = parts.TextColumn("{task.description}"), parts.TimeRemainingColumn()
    columns = (text, parts.BarColumn(), parts.DownloadColumn(), parts.TransferSpeedColumn(), left)
    with parts.Progress(*columns, console=Console(file=sys.stderr)) as progress:
        bar, lock = progress.add_task(title, total=size), Lock()

        def report(count: int) -> None:
            with lock:
                progress.update(bar, advance=count)

        yield report


@contextmanager
def shown_files(title: str, *, quiet: bool = False) -> Iterator[Progress]:
    """A function that is told how many files of how many have arrived."""
    if quiet or not sys.stderr.isatty():
        yield lambda _, __: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=Console(file=sys.stderr)) as progress:
        bar = progress.add_task(title, total=None, visible=False)
        yield lambda done, of: progress.update(bar, completed=done, total=of, visible=True)


def entry_facts(entry: Entry) -> dict[str, Any]:
    """One blob or folder; the size in bytes, the time in ISO 8601."""
    return {
        "name": entry.name,
        "bytes": entry.size,
        "blobs": entry.blobs,
        "modified": entry.modified.isoformat() if entry.modified else None,
    }


def print_entries(entries: Sequence[Entry]) -> None:
    """A line an entry."""
    from fairway_cli.ui.columns import columns
    from fairway_runner.quantities import size

    rows = [
        (
            entry.name,
            size(entry.size),
            f"{entry.blobs:,} blobs" if entry.is_folder else "",
            f"{entry.modified:%Y-%m-%d %H:%M}" if entry.modified else "",
        )
        for entry in entries
    ]
    print(columns(("NAME", "SIZE", "", "MODIFIED"), rows))
