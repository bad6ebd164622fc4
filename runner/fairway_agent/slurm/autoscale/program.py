"""What every program of a scheduler or a node begins with: its settings, and where it says what
it does."""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING

from fairway_agent.slurm.autoscale.settings import load, metadata_service

if TYPE_CHECKING:
    from types import TracebackType

    from fairway_agent.azure.imds import Metadata
    from fairway_agent.slurm.autoscale.settings import Settings


def begin() -> tuple[Settings, Metadata]:
    """The settings, and this VM's metadata service. From now on lines go with their time to the
    log file, or to standard error where the settings name none.

    What nobody expected is logged too: nobody reads what slurmctld's programs print.
    """
    settings = load()
    logging.basicConfig(
        filename=settings.log or None,
        level=logging.INFO,
        format="%(asctime)s %(module)s[%(process)d]: %(message)s",
    )
    sys.excepthook = _unexpected
    return settings, metadata_service(settings)


def _unexpected(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    if issubclass(kind, KeyboardInterrupt):
        return
    logging.getLogger(__name__).critical("unexpected", exc_info=(kind, error, trace))
