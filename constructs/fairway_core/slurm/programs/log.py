"""Where programs say what they do."""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import TracebackType

    from .settings import Settings


def log_to(settings: Settings) -> None:
    """Lines with their time to the log file, or to standard error where there is none.

    What nobody expected is logged too: nobody reads what slurmctld's programs print.
    """
    logging.basicConfig(
        filename=settings.log or None,
        level=logging.INFO,
        format="%(asctime)s %(module)s[%(process)d]: %(message)s",
    )
    sys.excepthook = _unexpected


def _unexpected(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    if issubclass(kind, KeyboardInterrupt):
        return
    logging.getLogger(__name__).critical("unexpected", exc_info=(kind, error, trace))
