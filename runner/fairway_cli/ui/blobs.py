"""Blobs as plain data and as a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fairway_runner.data.ls import Entry


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
