"""Rules on what a plan would do to the machines that others use: file servers, the scheduler."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fairway_core.catalog.dangers import server_of
from fairway_core.checks.check import Fault, Subject, check
from fairway_core.checks.plan.resource_changes import changed, deleted, stopped_for
from fairway_core.findings import Severity
from fairway_core.naming import SLURM_TAG
from fairway_core.slurm.packages import reads_state

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from fairway_core.checks.check import Occurrence
    from fairway_core.checks.subjects import PlanSubject

_MACHINE = "azurerm_linux_virtual_machine"
_ATTACHMENT = "azurerm_virtual_machine_data_disk_attachment"


def _changed_servers(subject: PlanSubject) -> Iterator[Occurrence]:
    everything = (*subject.changes, *subject.others)
    gone = frozenset(str(each.get("id")) for each in deleted(everything))
    for path, arguments in changed(_MACHINE)(subject):
        if server_of(arguments["before"]) is None:
            continue
        machine = arguments["before"]
        interfaces = machine.get("network_interface_ids")
        yield (
            path,
            {
                **arguments,
                "emptied": not gone.isdisjoint(_disks(subject, machine.get("id"))),
                "moved": isinstance(interfaces, list) and any(str(i) in gone for i in interfaces),
            },
        )


def _disks(subject: PlanSubject, machine: object) -> Iterator[str]:
    """The ids of the data disks that the machine has before the change."""
    for each in subject.changes:
        before = each["change"].get("before") or {}
        if each["type"] == _ATTACHMENT and before.get("virtual_machine_id") == machine:
            yield str(before.get("managed_disk_id"))


@check("replaced-server", Severity.WARNING, Subject.PLAN, at=_changed_servers)
def replaced_server(
    address: str,  # noqa: ARG001  # the rule gets it
    type: str,  # noqa: A002
    actions: Sequence[str],
    before: Mapping[str, Any],
    after: Mapping[str, Any],
    reason: str = "",
    emptied: bool = False,
    moved: bool = False,
) -> Iterator[Fault]:
    """A file server or the Slurm scheduler that is recreated, restarted or destroyed.

    Wrong:
        resource_changes:
          - address: azurerm_linux_virtual_machine.nfs-data-server
            type: azurerm_linux_virtual_machine
            change:
              actions: [delete, create]
              before: {tags: {fairway-role: nfs-server, fairway-name: data}}
              after: {tags: {fairway-role: nfs-server, fairway-name: data}}
              replace_paths: [[custom_data]]

    Right:
        resource_changes:
          - address: azurerm_linux_virtual_machine.nfs-data-server
            type: azurerm_linux_virtual_machine
            change:
              actions: [update]
              before: {tags: {fairway-role: nfs-server, fairway-name: data}}
              after: {tags: {fairway-role: nfs-server, fairway-name: data, a: b}}
    """
    server = server_of(before)
    if server is None or type != _MACHINE:
        return
    if actions == ["delete"]:
        yield Fault(f"{server.what} would be destroyed: {server.gone}", "unmount and drain first")
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
    if "delete" in actions:
        why = f", as {reason}" if reason else ""
        yield Fault(f"{server.what} would be replaced{why}: {meanwhile}", when)
    elif stopped := stopped_for(before, after):
        changed_ = ", ".join(stopped)
        yield Fault(f"{server.what} would restart, as {changed_} changes: {meanwhile}", when)


@check("unreadable-state", Severity.ERROR, Subject.PLAN, at=_changed_servers)
def unreadable_state(
    address: str,  # noqa: ARG001  # the rule gets it
    type: str,  # noqa: A002, ARG001
    actions: Sequence[str],
    before: Mapping[str, Any],
    after: Mapping[str, Any],
    reason: str = "",  # noqa: ARG001
    emptied: bool = False,
    moved: bool = False,  # noqa: ARG001
) -> Iterator[Fault]:
    """Another release of Slurm that cannot read the jobs and the history on the scheduler's disk.

    A release reads what the three before it have left. It does not start with anything else, nor
    with what a newer one has left.

    Wrong:
        resource_changes:
          - address: azurerm_linux_virtual_machine.slurm-scheduler
            type: azurerm_linux_virtual_machine
            change:
              actions: [update]
              before: {tags: {fairway-role: slurm-scheduler, fairway-slurm: "23.11"}}
              after: {tags: {fairway-role: slurm-scheduler, fairway-slurm: "25.11.5"}}

    Right:
        resource_changes:
          - address: azurerm_linux_virtual_machine.slurm-scheduler
            type: azurerm_linux_virtual_machine
            change:
              actions: [update]
              before: {tags: {fairway-role: slurm-scheduler, fairway-slurm: "25.11.5"}}
              after: {tags: {fairway-role: slurm-scheduler, fairway-slurm: "25.11.6"}}
    """
    old, new = _slurm(before), _slurm(after)
    if not old or not new or emptied or actions == ["delete"] or reads_state(new, of=old):
        return
    yield Fault(
        f"Slurm {new} does not start with the jobs and the history that {old} has left",
        "go there by a release between the two, each at most three after the one before: "
        "`slurm.packages` with its version; or begin anew, with another disk",
    )


def _slurm(machine: Mapping[str, Any]) -> str:
    return str((machine.get("tags") or {}).get(SLURM_TAG) or "")
