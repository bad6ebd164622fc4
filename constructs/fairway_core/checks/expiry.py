"""Life cycles of storage: what is deleted after how many days, and whether that is sooner."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fairway_core.json_values import blocks, first, number

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

LIFE_CYCLE = "azurerm_storage_management_policy"


@dataclass(frozen=True, order=True)
class _Scope:
    """Of which blobs a rule deletes what: all versions of a `type` whose name begins so."""

    kind: str
    prefix: str
    type: str
    tags: tuple[str, ...]

    def covers(self, other: _Scope) -> bool:
        """Whether all of those blobs are among these."""
        return (
            self.kind == other.kind
            and other.prefix.startswith(self.prefix)
            and self.type in ("", other.type)
            and set(self.tags) <= set(other.tags)
        )


def expires_sooner(
    before: Mapping[str, Any],
    after: Mapping[str, Any],
    unknown: Mapping[str, Any],
    created: Collection[tuple[str, str]],
) -> Iterator[str]:
    """What would be deleted sooner than before, as the end of a sentence.

    `created` holds account and name of the containers that the plan makes: they are empty.
    """
    account = after.get("storage_account_id")
    if not before and (not isinstance(account, str) or unknown.get("storage_account_id")):
        return  # a new account holds nothing yet
    if isinstance(account, str) and before.get("storage_account_id", account) != account:
        before = {}  # it was that of another account
    told = set()
    old, new = _expiry(before), _expiry(after)
    for scope, days in sorted(new.items()):
        container = scope.prefix.partition("/")[0]
        if container and (account, container) in created:
            continue
        was = min((at for one, at in old.items() if one.covers(scope)), default=math.inf)
        if days < was and (scope.kind, scope.prefix) not in told:
            told.add((scope.kind, scope.prefix))
            what = "blobs" if scope.kind == "base_blob" else f"{scope.kind}s of blobs"
            then = "never" if was == math.inf else f"after {was:g} days"
            where = scope.prefix or "*"
            yield f"would delete {what} of `{where}` after {days:g} days, before: {then}"


def _expiry(policy: Mapping[str, Any]) -> dict[_Scope, float]:
    """After how many days each is deleted."""
    found: dict[_Scope, float] = {}
    for rule in blocks(policy.get("rule")):
        if rule.get("enabled") is False:
            continue
        actions = first(rule.get("actions"))
        for kind in ("base_blob", "snapshot", "version"):
            days = min(_deletions(first(actions.get(kind))), default=math.inf)
            for scope in _scopes(kind, first(rule.get("filters"))):
                if days < found.get(scope, math.inf):
                    found[scope] = days
    return found


def _scopes(kind: str, filters: Mapping[str, Any]) -> Iterator[_Scope]:
    tags = tuple(
        sorted(
            f"{tag.get('name')}{tag.get('operation') or '=='}{tag.get('value')}"
            for tag in blocks(filters.get("match_blob_index_tag"))
        )
    )
    for prefix in _texts(filters.get("prefix_match")):
        for type_ in _texts(filters.get("blob_types")):
            yield _Scope(kind, prefix, type_, tags)


def _texts(value: Any) -> list[str]:
    """The texts of a list; an empty one, which stands for all, where there is none."""
    return [str(item) for item in value] if isinstance(value, list) and value else [""]


def _deletions(action: Mapping[str, Any]) -> Iterator[float]:
    """The days after which it deletes; the provider writes -1 for never."""
    for key, days in action.items():
        if key.startswith("delete_after_days") and isinstance(days, int | float) and days >= 0:
            yield number(days)
