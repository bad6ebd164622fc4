"""Nodes as a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fairway_runner.engines.engine import Node

_COLOURS = {"idle": "green", "running": "cyan", "allocated": "cyan", "mixed": "cyan"}
_BROKEN = ("unusable", "starttaskfailed", "down", "offline", "drain", "fail", "unknown", "lost")


def print_nodes(nodes: Sequence[Node]) -> None:
    """A line a node; why one is not fit for work stands below it."""
    from rich.text import Text

    from fairway_cli.ui.tables import add_row, new_table, print_table
    from fairway_core.findings import printable

    more = list(dict.fromkeys(name for node in nodes for name in node.facts))
    rows = new_table("NODE", "STATE", "ADDRESS", "RUN", *(name.upper() for name in more), "REASON")
    for node in nodes:
        broken = node.state.lower().startswith(_BROKEN)
        style = "red" if broken else _COLOURS.get(node.state.lower(), "")
        extra = [node.facts.get(name, "") for name in more]
        state = Text(printable(node.state), style=style)
        add_row(rows, node.name, state, node.address, node.run, *extra, node.reason)
    print_table(rows)
