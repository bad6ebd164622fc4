"""Rules on what a plan would change."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairway_core.catalog.terraform_types import holds_data
from fairway_core.checks.check import Fault, Subject, check
from fairway_core.findings import Severity

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from fairway_core.checks.check import Place
    from fairway_core.checks.subjects import PlanSubject


def _changes(subject: PlanSubject) -> Iterator[Place]:
    for change in subject.changes:
        yield (
            (change["address"],),
            {
                "address": change["address"],
                "type": change["type"],
                "actions": change["change"]["actions"],
                "because": [
                    ".".join(str(step) for step in path)
                    for path in change["change"].get("replace_paths") or ()
                ],
                "allow": subject.allow,
            },
        )


@check("data-loss", Severity.ERROR, Subject.PLAN, at=_changes)
def data_loss(
    address: str,
    type: str,  # noqa: A002
    actions: Sequence[str],
    because: Sequence[str],
    allow: Collection[str],
) -> Iterator[Fault]:
    """A change that deletes or replaces what holds data: a disk, an account, a share, a vault.

    It is meant only where the resource's address is named on the command line.

    Wrong:
        resource_changes:
          - address: azurerm_managed_disk.data-disk-0
            type: azurerm_managed_disk
            change: {actions: [delete, create], replace_paths: [[zone]]}

    Right:
        resource_changes:
          - address: azurerm_managed_disk.data-disk-0
            type: azurerm_managed_disk
            change: {actions: [update]}
    """
    if "delete" not in actions or not holds_data(type) or address in allow:
        return
    what = "replaced, and with it what it holds" if "create" in actions else "deleted"
    reason = f": {', '.join(because)} cannot be changed in place" if because else ""
    yield Fault(
        f"`{address}` would be {what}{reason}",
        f"keep it as it is, copy its data first, or say that it is meant by naming {address}",
    )
