"""A digest of what plans would do: two plans with the same digest do the same.

It is SHA-256 over JSON of, for each stack by name: whether it is planned, failed or waits;
each resource that is not left as it is, by address, with its type, provider, action, the
attributes that change from what to what (all of them where it is created), those that force
a replacement, and the address that it had; and each output that changes. A secret value and
one that is known only after apply stand in it as just that. What is not in it: drift, findings,
costs, what is allowed, the order of resources, the time, and versions.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

from fairway_core.review.attributes import HIDDEN, UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fairway_core.review.changes import Change, OutputChange

# Each as no value could be written.
_MARKERS = {marker: {"": repr(marker)} for marker in (HIDDEN, UNKNOWN)}


def digest_of_stack(
    stack: str, state: str, changes: Iterable[Change], outputs: Iterable[OutputChange]
) -> str:
    """The digest of one stack, as `sha256:…`."""
    content = {
        "stack": stack,
        "state": state,
        "changes": sorted((_facts(change) for change in changes), key=_order),
        "outputs": [[each.name, str(each.action), each.old, each.new] for each in outputs],
    }
    return _digest(content)


def digest_of(digests: Iterable[str]) -> str:
    """The digest of several stacks, whatever their order."""
    return _digest(sorted(digests))


def _facts(change: Change) -> list[Any]:
    return [
        change.address,
        change.deposed,
        change.type,
        change.provider,
        str(change.action),
        change.moved_from,
        sorted(change.because),
        [[each.path, each.old, each.new] for each in change.attributes],
        change.created,
    ]


def _order(facts: list[Any]) -> tuple[str, str]:
    return facts[0], facts[1]


def _digest(content: Any) -> str:
    text = json.dumps(
        content,
        sort_keys=True,
        separators=(",", ":"),
        default=_MARKERS.__getitem__,
        check_circular=False,
    )
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"
