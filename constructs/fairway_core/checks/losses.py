"""Losses of data by the change of one resource, each as the end of a sentence."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fairway_core.catalog.terraform_types import (
    data_attributes,
    loses_data,
    loss_of_deletion,
    server_of,
)
from fairway_core.json_values import as_list, blocks, first_block, number
from fairway_core.naming import ROLE_TAG

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from fairway_core.checks.resource_change import ResourceChange

MANAGEMENT_POLICY = "azurerm_storage_management_policy"


@dataclass(frozen=True, order=True)
class _Scope:
    """The blobs that a rule deletes: by `kind`, such as versions, `prefix`, `type` and `tags`."""

    kind: str
    prefix: str
    type: str
    tags: tuple[str, ...]

    def covers(self, other: _Scope) -> bool:
        """Returns True if this scope contains all blobs of the other."""
        return (
            self.kind == other.kind
            and other.prefix.startswith(self.prefix)
            and self.type in ("", other.type)
            and set(self.tags) <= set(other.tags)
        )


def _expires_sooner(
    before: Mapping[str, Any],
    after: Mapping[str, Any],
    unknown: Mapping[str, Any],
    created: Collection[tuple[str, str]],
) -> Iterator[str]:
    """Yields the blobs that would be deleted sooner than before, each as the end of a sentence;
    `created` are those of `change_losses`."""
    account = after.get("storage_account_id")
    if not before and (not isinstance(account, str) or unknown.get("storage_account_id")):
        return  # a new account holds nothing yet
    if isinstance(account, str) and before.get("storage_account_id", account) != account:
        before = {}  # the policy belonged to another account
    reported = set()
    old, new = _expiry(before), _expiry(after)
    for scope, days in sorted(new.items()):
        container = scope.prefix.partition("/")[0]
        if container and (account, container) in created:
            continue
        was = min((at for one, at in old.items() if one.covers(scope)), default=math.inf)
        if days < was and (scope.kind, scope.prefix) not in reported:
            reported.add((scope.kind, scope.prefix))
            what = "blobs" if scope.kind == "base_blob" else f"{scope.kind}s of blobs"
            then = "never" if was == math.inf else f"after {was:g} days"
            where = scope.prefix or "*"
            yield f"would delete {what} of `{where}` after {days:g} days, before: {then}"


def _expiry(policy: Mapping[str, Any]) -> dict[_Scope, float]:
    """Returns the days after which the blobs of each scope are deleted."""
    found: dict[_Scope, float] = {}
    for rule in blocks(policy.get("rule")):
        if rule.get("enabled") is False:
            continue
        actions = first_block(rule.get("actions"))
        for kind in ("base_blob", "snapshot", "version"):
            days = min(
                # The provider writes -1 for never.
                (
                    number(at)
                    for key, at in first_block(actions.get(kind)).items()
                    if key.startswith("delete_after_days")
                    if isinstance(at, int | float) and at >= 0
                ),
                default=math.inf,
            )
            for scope in _scopes(kind, first_block(rule.get("filters"))):
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
    """Returns the texts of a list, or one empty text, which stands for all, without a list."""
    return [str(item) for item in value] if isinstance(value, list) and value else [""]


_BACKED_UP = "azurerm_backup_protected_vm"
# Source: azurerm provider documentation, "azurerm_backup_protected_vm", protection_state.
_NOT_BACKED_UP = ("BackupsSuspended", "Invalid", "ProtectionStopped")
_MACHINES = frozenset(
    {"azurerm_linux_virtual_machine", "azurerm_virtual_machine", "azurerm_windows_virtual_machine"}
)


def deletion_losses(
    sides: ResourceChange, gone: Collection[str], *, replaced: bool
) -> Iterator[str]:
    """Yields the losses from deleting the resource, each as the end of a sentence. `gone` has the
    ids of all resources that the plan deletes."""
    before = sides.before
    # Terraform writes the content of such a blob, for example a cluster's manifests.
    is_written = sides.type == "azurerm_storage_blob" and before.get("source_content")
    # A system disk on the host is not kept anyway.
    on_host = first_block(before.get("os_disk")).get("diff_disk_settings")
    if (before.get("tags") or {}).get(ROLE_TAG) == "nfs-disk":
        yield "and with it all files of its file server, which are striped over its disks"
    elif loses_data(sides.type) and not is_written:
        yield f"and with it {loss_of_deletion(sides.type)}"
    elif sides.type in _MACHINES and server_of(before) is None and not on_host:
        yield "and with it its own disk"
    for of, then in data_attributes(sides.type, "guards", "of", "then"):
        guarded = str(before.get(of) or "")
        if guarded not in gone and not (replaced and sides.after.get(of) == guarded):
            yield f"and then {then.format(name=guarded.rpartition('/')[2] or 'what it guards')}"


def change_losses(sides: ResourceChange, created: Collection[tuple[str, str]]) -> Iterator[str]:
    """Yields the losses, now or later, from changing a resource that stays. `created` has account
    and name of the containers that the plan creates: they are empty."""
    yield from _kept_less(sides)
    for path, unit in data_attributes(sides.type, "room", "path", "unit"):
        old, new = map(number, sides.values(path) or (0, 0))
        if 0 < new < old:
            yield (
                f"would shrink: {path} {old:g} → {new:g} {unit}; nothing could be written "
                "if it already holds more"
            )
    for path, survives in data_attributes(sides.type, "replication", "path", "survives"):
        was, then = (str(value or "") for value in sides.values(path) or (None, None))
        lost = [what for what in survives.get(was, ()) if what not in survives.get(then, ())]
        if lost and then in survives:
            yield f"would no longer survive {' and '.join(lost)}: {path} {was} → {then}"
    yield from _guarded_less(sides)
    if sides.type == _BACKED_UP:
        yield from _backed_up_less(sides)
    if sides.type == MANAGEMENT_POLICY:
        yield from _expires_sooner(sides.before, sides.after, sides.unknown, created)


def _kept_less(sides: ResourceChange) -> Iterator[str]:
    rows = data_attributes(sides.type, "keeps", "paths")
    for path in [path for (paths,) in rows for path in paths]:
        values = sides.values(path)
        old, new = map(number, values or (0, 0))
        if new < old and values is not None:
            if values[0] is True:
                yield f"would turn off {path}"
            else:
                yield f"would keep less: {path} {old:g} → {new:g}"
    for path, what in data_attributes(sides.type, "expires", "path", "what"):
        values = sides.values(path)
        old, new = map(number, values or (0, 0))
        if new > 0 and not 0 < old <= new:
            was = f"after {old:g} days" if old > 0 else "never"
            yield f"would delete {what} after {new:g} days, before: {was}"


def _guarded_less(sides: ResourceChange) -> Iterator[str]:
    for path, levels in data_attributes(sides.type, "strength", "path", "levels"):
        old, new = (str(value or "") for value in sides.values(path) or (None, None))
        if levels.get(new, 0) < levels.get(old, 0):
            yield f"would weaken the lock: {path} {old} → {new if new in levels else 'none'}"
    for path, without in data_attributes(sides.type, "guarding_blocks", "path", "without"):
        old_blocks, new_blocks = map(blocks, sides.values(path) or (None, None))
        if len(new_blocks) < len(old_blocks):
            yield without


def _backed_up_less(sides: ResourceChange) -> Iterator[str]:
    old, new = sides.values("protection_state") or (None, None)
    no_policy = sides.before.get("backup_policy_id") and not sides.after.get("backup_policy_id")
    if (new in _NOT_BACKED_UP and old != new) or (
        no_policy and sides.unknown.get("backup_policy_id") is not True
    ):
        yield "would no longer be backed up"
    left_out = _more("exclude_disk_luns", sides)
    only = sides.after.get("include_disk_luns") or []
    fewer = isinstance(only, list) and only and _more("include_disk_luns", sides, back=True)
    narrowed = only and not sides.before.get("include_disk_luns")
    if left_out or fewer or narrowed:
        yield "would exclude disks from its backups"


def _more(path: str, sides: ResourceChange, *, back: bool = False) -> bool:
    """Returns True if the change adds an item to the list; with `back`, if it removes one."""
    old, new = map(as_list, sides.values(path) or ([], []))
    return any(item not in (new if back else old) for item in (old if back else new))
