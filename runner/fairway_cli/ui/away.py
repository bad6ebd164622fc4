"""A run whose target does not answer is shown as it is known here, with the time of that."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from fairway_runner.runs.store import Run

EXIT_CODE = 5


def is_away(run: Run, ask: Callable[[], object]) -> bool:
    """Brings the run up to date by `ask`; whether its target did not answer, which is said."""
    from fairway_core.findings import UserError, format_finding
    from fairway_runner.engines.absence import clock

    try:
        ask()
    except UserError as error:
        if error.exit_code != EXIT_CODE:
            raise
        for finding in error.findings:
            print(format_finding(finding), file=sys.stderr)
        print(f"{run.id} is shown as last known at {clock(run.last_known)}", file=sys.stderr)
        return True
    return False
