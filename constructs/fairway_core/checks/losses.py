"""In which ways a change of one resource loses data; each answer is the end of a sentence."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

from fairway_core.catalog.dangers import keeps, replication, server_at
from fairway_core.catalog.terraform_types import is_lost_with

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

_LOCK = "azurerm_management_lock"
LIFE_CYCLE = "azurerm_storage_management_policy"
_PROTECTED = "azurerm_backup_protected_vm"
_MACHINES = frozenset(
    {"azurerm_linux_virtual_machine", "azurerm_virtual_machine", "azurerm_windows_virtual_machine"}
)
# A disk of a file server of Fairway's own.
_STRIPED = re.compile(r"azurerm_managed_disk\.nfs-.+-disk-[0-9]+")
_MOST = 10**9
# From the strongest to none.
_LOCK_LEVELS = ("ReadOnly", "CanNotDelete", "")


def by_deletion(
    address: str,
    type: str,  # noqa: A002
    before: Mapping[str, Any],
    gone: Collection[str],
) -> Iterator[str]:
    """What goes with the resource; `gone` holds the ids of all that the plan deletes."""
    if _STRIPED.fullmatch(address):
        yield "and with it all files of its file server, which are striped over its disks"
    elif is_lost_with(type):
        yield "and with it what it holds"
    elif type == _LOCK:
        scope = str(before.get("scope") or "")
        if scope not in gone:
            what = scope.rpartition("/")[2] or "what it locks"
            yield f"and then nothing keeps anybody from deleting `{what}`"
    elif type in _MACHINES and server_at(address) is None and _has_own_disk(before):
        yield "and with it its own disk"


def _has_own_disk(machine: Mapping[str, Any]) -> bool:
    """Whether its system disk keeps what is written to it: one on the host does not."""
    disk = _first(machine.get("os_disk"))
    return not disk.get("diff_disk_settings")


def by_change(
    type: str,  # noqa: A002
    before: Mapping[str, Any],
    after: Mapping[str, Any],
    unknown: Mapping[str, Any],
    created: Collection[tuple[str, str]],
) -> Iterator[str]:
    """What a change in place loses, now or later.

    `created` holds account and name of the containers that the plan makes: they are empty.
    """
    for path in keeps(type):
        yield from _kept_less(path, before, after, unknown)
    yield from _survives_less(type, before, after)
    if type == _LOCK and _lock_level(after) > _lock_level(before):
        yield "would lock less than before"
    if type == _PROTECTED and after.get("protection_state") in ("ProtectionStopped", "Invalid"):
        yield "would make no backups any more"
    if type == LIFE_CYCLE:
        yield from _expires_sooner(before, after, unknown, created)


def _kept_less(
    path: str, before: Mapping[str, Any], after: Mapping[str, Any], unknown: Mapping[str, Any]
) -> Iterator[str]:
    steps = path.split(".")
    if _at(unknown, steps) is True:
        return
    old, new = _number(_at(before, steps)), _number(_at(after, steps))
    if new < old:
        if steps[-1].endswith("enabled"):
            yield f"would have {path} switched off"
        else:
            yield f"would keep less: {path} {old:g} → {new:g}"


def _survives_less(
    type: str,  # noqa: A002
    before: Mapping[str, Any],
    after: Mapping[str, Any],
) -> Iterator[str]:
    known = replication(type)
    if known is None:
        return
    path, survives = known
    old, new = str(before.get(path) or ""), str(after.get(path) or "")
    lost = [what for what in survives.get(old, ()) if what not in survives.get(new, ())]
    if lost and new in survives:
        yield f"would no longer survive {' and '.join(lost)}: {path} {old} → {new}"


def _lock_level(lock: Mapping[str, Any]) -> int:
    level = str(lock.get("lock_level") or "")
    return _LOCK_LEVELS.index(level) if level in _LOCK_LEVELS else 0


def _expires_sooner(
    before: Mapping[str, Any],
    after: Mapping[str, Any],
    unknown: Mapping[str, Any],
    created: Collection[tuple[str, str]],
) -> Iterator[str]:
    account = after.get("storage_account_id")
    if not before and (not isinstance(account, str) or unknown.get("storage_account_id")):
        return  # a new account holds nothing yet
    old, new = _expiry(before), _expiry(after)
    for (kind, prefix), days in sorted(new.items()):
        container = prefix.partition("/")[0]
        if container and (account, container) in created:
            continue
        covering = (
            at for (of, start), at in old.items() if of == kind and prefix.startswith(start)
        )
        was = min(covering, default=math.inf)
        if days < was:
            what = "blobs" if kind == "base_blob" else f"{kind}s of blobs"
            then = "never" if was == math.inf else f"after {was:g} days"
            yield f"would delete {what} of `{prefix or '*'}` after {days:g} days, before: {then}"


def _expiry(policy: Mapping[str, Any]) -> dict[tuple[str, str], float]:
    """After how many days each kind of blob is deleted, by the beginnings of their names."""
    found: dict[tuple[str, str], float] = {}
    for rule in _blocks(policy.get("rule")):
        if rule.get("enabled") is False:
            continue
        prefixes = _first(rule.get("filters")).get("prefix_match")
        actions = _first(rule.get("actions"))
        for kind in ("base_blob", "snapshot", "version"):
            days = min(_deletions(_first(actions.get(kind))), default=math.inf)
            for prefix in prefixes if isinstance(prefixes, list) and prefixes else [""]:
                key = kind, str(prefix)
                if days < found.get(key, math.inf):
                    found[key] = days
    return found


def _deletions(action: Mapping[str, Any]) -> Iterator[float]:
    """The days after which it deletes; the provider writes -1 for never."""
    for key, days in action.items():
        if key.startswith("delete_after_days") and isinstance(days, int | float) and days >= 0:
            yield _number(days)


def _at(value: Any, steps: Sequence[str]) -> Any:
    for step in steps:
        value = _first(value).get(step) if value is not True else True
    return value


def _first(value: Any) -> Mapping[str, Any]:
    """A block: itself, or the first of a list."""
    first = value[0] if isinstance(value, list) and value else value
    return first if isinstance(first, dict) else {}


def _blocks(value: Any) -> list[Mapping[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _number(value: Any) -> float:
    """A number or a switch; 0 for nothing, and no more than can be written shortly."""
    return max(-_MOST, min(value, _MOST)) if isinstance(value, int | float) else 0
