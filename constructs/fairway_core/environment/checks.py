"""Which checks an environment does without."""

from __future__ import annotations

from pydantic import Field

from fairway_core.documents import Model


class Checks(Model, defer_build=True):
    """Checks whose findings are known and meant; docs/checks.md lists all of them."""

    ignore: tuple[str, ...] = Field(default=())
    """Ids of checks that stay silent, for example `no-budget`."""
