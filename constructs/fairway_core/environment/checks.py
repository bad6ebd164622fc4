"""Which checks an environment does without."""

from __future__ import annotations

from pydantic import Field

from fairway_core.documents import Model


class Checks(Model, defer_build=True):
    """Checks to leave out because their findings are accepted; docs/checks.md lists all checks."""

    ignore: tuple[str, ...] = Field(default=())
    """IDs of checks that report nothing, for example `no-budget`."""
