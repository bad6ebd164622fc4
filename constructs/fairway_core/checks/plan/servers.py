"""Rules on what a plan would do to shared resources: file servers, the scheduler, internet and
gateway access; and on a deleted budget."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

from fairway_core.catalog.terraform_types import server_of
from fairway_core.checks.check import Subject, Violation, check
from fairway_core.checks.resource_change import changed, deleted, lower_text, stopped_for
from fairway_core.findings import Severity
from fairway_core.json_values import as_list
from fairway_core.naming import SLURM_TAG
from fairway_core.slurm.cluster import reads_state

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from fairway_core.checks.check import Match
    from fairway_core.checks.resource_change import Changes, ResourceChange

_MACHINE = "azurerm_linux_virtual_machine"
_ATTACHMENT = "azurerm_virtual_machine_data_disk_attachment"


def _changed_servers(changes: Changes, others: Changes) -> Iterator[Match]:
    gone = frozenset(str(each.get("id")) for each in deleted((*changes, *others)))
    attached = [each.before for each in changes if each.type == _ATTACHMENT]
    for path, found in changed(_MACHINE)(changes):
        machine = found["change"].before
        if server_of(machine) is not None and (found["change"].goes or found["change"].updates):
            own = [each for each in attached if each.get("virtual_machine_id") == machine.get("id")]
            emptied = any(str(each.get("managed_disk_id")) in gone for each in own)
            interfaces = as_list(machine.get("network_interface_ids"))
            moved = any(str(each) in gone for each in interfaces)
            yield path, {**found, "emptied": emptied, "moved": moved}


@check("replaced-server", Severity.WARNING, Subject.PLAN, select=_changed_servers)
def replaced_server(change: ResourceChange, *, emptied: bool, moved: bool) -> Iterator[Violation]:
    """A file server or the Slurm scheduler that is recreated, restarted or destroyed.

    Wrong:
        azurerm_linux_virtual_machine.nfs-data-server:
          actions: [delete, create]
          before: {tags: {fairway-role: nfs-server, fairway-name: data}}
          replace_paths: [[custom_data]]

    Right:
        azurerm_linux_virtual_machine.nfs-data-server:
          actions: [update]
          before: {tags: {fairway-role: nfs-server, fairway-name: data}}
          after: {tags: {fairway-role: nfs-server, fairway-name: data, a: b}}
    """
    before, after = change.before, change.after
    server = server_of(before)
    assert server is not None, "no others are looked at"
    if change.actions == ["delete"]:
        yield Violation(
            f"{server.what} would be destroyed: {server.gone}", "unmount and drain first"
        )
        return
    when = "apply it when little runs"
    old, new = _slurm(before), _slurm(after)
    if old and new and old != new:
        when = (
            f"Slurm {new} takes the place of {old}: apply it when no job runs and no node is up, "
            "as nodes that are keep the old one; take a snapshot of the state disk first"
        )
    ends = [text for text, holds in ((server.emptied, emptied), (server.moved, moved)) if holds]
    meanwhile = "; ".join(
        [server.meanwhile, *(filter(None, ends) if any(ends) else [server.stays])]
    )
    if change.goes:
        yield Violation(f"{server.what} would be replaced{change.because}: {meanwhile}", when)
    elif stopped := stopped_for(before, after):
        changed_ = ", ".join(stopped)
        yield Violation(f"{server.what} would restart, as {changed_} changes: {meanwhile}", when)


@check("unreadable-state", Severity.ERROR, Subject.PLAN, select=_changed_servers)
def unreadable_state(
    change: ResourceChange,
    *,
    emptied: bool,
    moved: bool,  # noqa: ARG001  # for the other rule
) -> Iterator[Violation]:
    """Another release of Slurm that cannot read the jobs and the history on the scheduler's disk.

    A release reads what the three before it have left. It does not start with anything else, nor
    with what a newer one has left.

    Wrong:
        azurerm_linux_virtual_machine.slurm-scheduler:
          actions: [update]
          before: {tags: {fairway-role: slurm-scheduler, fairway-slurm: "23.11"}}
          after: {tags: {fairway-role: slurm-scheduler, fairway-slurm: "25.11.5"}}

    Right:
        azurerm_linux_virtual_machine.slurm-scheduler:
          actions: [update]
          before: {tags: {fairway-role: slurm-scheduler, fairway-slurm: "25.11.5"}}
          after: {tags: {fairway-role: slurm-scheduler, fairway-slurm: "25.11.6"}}
    """
    old, new = _slurm(change.before), _slurm(change.after)
    if not old or not new or emptied or reads_state(new, of=old):
        return
    yield Violation(
        f"Slurm {new} does not start with the jobs and the history that {old} has left",
        "go there by a release between the two, each at most three after the one before: "
        "`slurm.packages` with its version; or begin anew, with another disk",
    )


def _slurm(machine: Mapping[str, Any]) -> str:
    return str((machine.get("tags") or {}).get(SLURM_TAG) or "")


_BUDGETS = (
    "azurerm_consumption_budget_resource_group",
    "azurerm_consumption_budget_subscription",
)
_PEERING, _ADDRESS = "azurerm_virtual_network_peering", "azurerm_public_ip"
_OF_GATEWAY = "azurerm_nat_gateway_public_ip_association"


def _staying(*types: str) -> Callable[[Changes], Iterator[Match]]:
    """Returns a function that yields changed resources of these types, unless all are deleted."""

    def matches(changes: Changes) -> Iterator[Match]:
        if any(each.actions != ["delete"] for each in changes):
            yield from changed(*types)(changes)

    return matches


@check("lost-budget", Severity.WARNING, Subject.PLAN, select=_staying(*_BUDGETS))
def lost_budget(change: ResourceChange) -> Iterator[Violation]:
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
        yield Violation(
            f"`{change.address}` would be deleted: nobody gets mail about costs any more",
            "keep `budget:` in the environment file, unless somebody else watches them",
        )


@check("lost-gateway", Severity.WARNING, Subject.PLAN, select=_staying(_PEERING))
def lost_gateway(change: ResourceChange) -> Iterator[Violation]:
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
        yield Violation(
            f"`{change.address}` would lead to no VPN or ExpressRoute gateway any more: who comes "
            "in over it reaches nothing here, and nodes reach nothing behind it",
            "keep `gateway: true` of the peering, or have another way in first",
        )


def _addresses(changes: Changes) -> Iterator[Match]:
    """Yields the changed public addresses of NAT gateways."""
    used = {
        lower_text(each.before, "public_ip_address_id")
        for each in changes
        if each.type == _OF_GATEWAY
    }
    for path, found in _staying(_ADDRESS)(changes):
        if lower_text(found["change"].before, "id") in used - {""}:
            yield path, found


@check("new-address", Severity.WARNING, Subject.PLAN, select=_addresses)
def new_address(change: ResourceChange) -> Iterator[Violation]:
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
    yield Violation(
        f"`{change.address}` would be {change.fate}{change.because}: the internet knows nodes by "
        f"{change.before.get('ip_address') or 'its address'} no longer",
        hint,
    )
