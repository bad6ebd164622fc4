"""What a firewall has to let through, as a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairway_cli.ui.columns import columns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fairway_core.environment.egress import Outbound


def outbound_table(names: Sequence[Outbound]) -> str:
    """A line for each name."""
    rows = [(each.name, str(each.port), each.reason) for each in names]
    return columns(("OUTBOUND NAME", "PORT", "FOR"), rows)
