"""The permissions that a deployment needs, and the Azure roles that grant them."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

from fairway_agent.quick import dataclass
from fairway_core.catalog.tables import table

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


@dataclass(frozen=True)
class Permission:
    """Allowed actions, except those in `not_actions`; `*` stands for any text. `data_actions` apply
    to the content of a resource, such as the secrets of a vault."""

    actions: tuple[str, ...]
    not_actions: tuple[str, ...] = ()
    data_actions: tuple[str, ...] = ()

    def allows(self, action: str, *, data: bool = False) -> bool:
        """Returns True if the permission allows the action; Azure ignores case."""
        if data:
            return _matches(self.data_actions, action)
        return _matches(self.actions, action) and not _matches(self.not_actions, action)


def allowed(action: str, permissions: Iterable[Permission], *, data: bool = False) -> bool:
    """Returns True if a permission allows the action: one may grant what another excludes.

    >>> allowed("Microsoft.Authorization/locks/write", [built_in_roles()["Contributor"]])
    False
    """
    return any(permission.allows(action, data=data) for permission in permissions)


@cache
def built_in_roles() -> Mapping[str, Permission]:
    """Returns the built-in roles that a deployment may need or assign, by name."""
    return {
        name: Permission(
            *(tuple(row.get(key, ())) for key in ("actions", "not_actions", "data_actions"))
        )
        for name, row in table("roles")["roles"].items()
    }


def action_that_makes(type: str) -> str | None:  # noqa: A002
    """Returns the action to create a resource of that type, or None if it is not checked."""
    found: str | None = table("roles")["actions"].get(type)
    return found


def _matches(patterns: Iterable[str], action: str) -> bool:
    return any(
        re.fullmatch(re.escape(pattern).replace(r"\*", ".*"), action, re.IGNORECASE)
        for pattern in patterns
    )
