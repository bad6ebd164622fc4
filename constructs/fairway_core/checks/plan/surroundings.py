"""Rules on what a plan would take from an environment that stays: its budget and its ways out."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from fairway_core.checks.check import Fault, Subject, check
from fairway_core.checks.resource_change import changed, lower_text
from fairway_core.findings import Severity

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fairway_core.checks.check import Occurrence
    from fairway_core.checks.resource_change import Changes, ResourceChange

_BUDGETS = (
    "azurerm_consumption_budget_resource_group",
    "azurerm_consumption_budget_subscription",
)
_PEERING, _ADDRESS = "azurerm_virtual_network_peering", "azurerm_public_ip"
_OF_GATEWAY = "azurerm_nat_gateway_public_ip_association"


def _staying(*types: str) -> Callable[[Changes], Iterator[Occurrence]]:
    """The changed resources of these types; none where all that is there goes."""

    def occurrences(changes: Changes) -> Iterator[Occurrence]:
        if any(each.actions != ["delete"] for each in changes):
            yield from changed(*types)(changes)

    return occurrences


@check("lost-budget", Severity.WARNING, Subject.PLAN, at=_staying(*_BUDGETS))
def lost_budget(change: ResourceChange) -> Iterator[Fault]:
    """A budget that is deleted: nobody gets mail about costs any more.

    Wrong:
        azurerm_storage_account.storage: {actions: [no-op]}
        azurerm_consumption_budget_subscription.budget: {actions: [delete], before: {amount: 100}}

    Right:
        azurerm_storage_account.storage: {actions: [no-op]}
        azurerm_consumption_budget_subscription.budget:
          {actions: [update], before: {amount: 100}, after: {amount: 200}}
    """
    if change.actions == ["delete"]:
        yield Fault(
            f"`{change.address}` would be deleted: nobody gets mail about costs any more",
            "keep `budget:` in the environment file, unless somebody else watches them",
        )


@check("lost-gateway", Severity.WARNING, Subject.PLAN, at=_staying(_PEERING))
def lost_gateway(change: ResourceChange) -> Iterator[Fault]:
    """A network that no longer uses the VPN or ExpressRoute gateway of a peered network.

    Wrong:
        azurerm_virtual_network_peering.peering-to-hub:
          actions: [update]
          before: {use_remote_gateways: true}
          after: {use_remote_gateways: false}

    Right:
        azurerm_virtual_network_peering.peering-to-hub:
          {actions: [create], after: {use_remote_gateways: true}}
    """
    if change.before.get("use_remote_gateways") and not change.after.get("use_remote_gateways"):
        yield Fault(
            f"`{change.address}` would lead to no VPN or ExpressRoute gateway any more: who comes "
            "in over it reaches nothing here, and nodes reach nothing behind it",
            "keep `gateway: true` of the peering, or have another way in first",
        )


def _addresses(changes: Changes) -> Iterator[Occurrence]:
    """The public addresses of NAT gateways."""
    used = {
        lower_text(each.before, "public_ip_address_id")
        for each in changes
        if each.type == _OF_GATEWAY
    }
    for path, found in _staying(_ADDRESS)(changes):
        if lower_text(found["change"].before, "id") in used - {""}:
            yield path, found


@check("new-address", Severity.WARNING, Subject.PLAN, at=_addresses)
def new_address(change: ResourceChange) -> Iterator[Fault]:
    """Nodes that the internet would know by another address, as after another `zone`.

    Wrong:
        azurerm_nat_gateway_public_ip_association.nat:
          {actions: [no-op], before: {public_ip_address_id: /a}}
        azurerm_public_ip.nat-address:
          {actions: [delete, create], before: {id: /a}, replace_paths: [[zones]]}

    Right:
        azurerm_nat_gateway_public_ip_association.nat:
          {actions: [no-op], before: {public_ip_address_id: /a}}
        azurerm_public_ip.nat-address: {actions: [update], before: {id: /a}}
    """
    if not change.goes:
        return
    hint = "let in the address that they come from then, wherever this one is let in"
    if "create" in change.actions:
        shown = shlex.quote(str(change.before["id"]))
        hint += f": az network public-ip show --query ipAddress --ids {shown}"
    yield Fault(
        f"`{change.address}` would be {change.fate}{change.because}: the internet knows nodes by "
        f"{change.before.get('ip_address') or 'its address'} no longer",
        hint,
    )
