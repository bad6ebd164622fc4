"""A target that does not answer for a while is asked again: what runs there goes on meanwhile."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from fairway_boot.faults import NO_ANSWER, NO_CONNECTION
from fairway_core.findings import UserError, printable

if TYPE_CHECKING:
    from collections.abc import Callable

    from fairway_runner.runs.folder import RunFolder

_PASSING = frozenset({NO_CONNECTION, NO_ANSWER})

_LOG = logging.getLogger("fairway")


@dataclass
class Absence:
    """Looks at a run that is followed, and tolerates that its target does not answer for `deadline`
    seconds. It warns once, with the time of the last answer."""

    run: RunFolder
    deadline: float
    answered: float = field(default_factory=time.monotonic)
    told: bool = False

    def look(self, ask: Callable[[], object]) -> bool:
        """Calls `ask`; whether there was an answer. UserError where the deadline is over, or where
        another try would change nothing."""
        try:
            ask()
        except UserError as error:
            left = self.answered + self.deadline - time.monotonic()
            if left <= 0 or not is_away(error):
                raise
            self._tell(error, left)
            return False
        self.answered, self.told = time.monotonic(), False
        return True

    def _tell(self, error: UserError, left: float) -> None:
        if self.told:
            return
        self.told = True
        until = datetime.now().astimezone() + timedelta(seconds=left)
        _LOG.warning(
            "%s; %s is as last known at %s; retrying until %s, Ctrl-C ends it",
            printable(error.findings[0].message),
            self.run.id,
            clock(self.run.last_known),
            f"{until:%H:%M:%S}",
        )


def is_away(error: UserError) -> bool:
    """Whether the target did not answer, and may do so later."""
    return any(finding.id in _PASSING for finding in error.findings)


def clock(seconds: float) -> str:
    """A time since 1970 as it is here, without the day where that is today."""
    then = datetime.fromtimestamp(seconds).astimezone()
    same = then.date() == datetime.now().astimezone().date()
    return f"{then:%H:%M:%S}" if same else f"{then:%Y-%m-%d %H:%M:%S}"
