"""The list of runs drawn again and again."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from fairway_cli.ui.tables import run_table
from fairway_runner.runs.store import FINAL_STATES

if TYPE_CHECKING:
    from collections.abc import Callable

_PAUSE = 0.25  # seconds between two looks


def until_ended(
    look: Callable[[], list[dict[str, Any]]], *, draws: bool, pause: float = _PAUSE
) -> None:
    """Looks at runs until all have ended; `draws` shows each look on the terminal."""
    if not draws:
        while not _have_ended(look()):
            time.sleep(pause)
        return
    from rich.live import Live
    from rich.text import Text

    with Live(auto_refresh=False) as live:
        while True:
            runs = look()
            live.update(Text.from_ansi(run_table(runs)), refresh=True)
            if _have_ended(runs):
                return
            time.sleep(pause)


def _have_ended(runs: list[dict[str, Any]]) -> bool:
    return all(run["state"] in FINAL_STATES for run in runs)
