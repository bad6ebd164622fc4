"""Each minute: holds what Slurm thinks, what the ledger says and what Azure has together.

Azure takes Spot nodes away, programs are cut off, and the scheduler restarts. Whatever was
left undone is done here: so a node that is gone is cloud again, and no instance stays that
nobody needs.
"""

from __future__ import annotations

import logging
import sys
import time
from typing import TYPE_CHECKING

from fairway_agent.azure.http import Failure
from fairway_agent.slurm.autoscale import holds, slurmctld
from fairway_agent.slurm.autoscale.capacity import Capacity, lost, nameless
from fairway_agent.slurm.autoscale.ledger import locked, opened
from fairway_agent.slurm.autoscale.settings import begin

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fairway_agent.slurm.autoscale.holds import Hold
    from fairway_agent.slurm.autoscale.ledger import Ledger
    from fairway_agent.slurm.autoscale.scale_set import Instance
    from fairway_agent.slurm.autoscale.settings import Settings

_log = logging.getLogger(__name__)
# Long enough for a resume program, which does the same, to be done with it.
_OVERDUE = 120.0
# Any of these says that a node's slurmd has not answered yet, or does so no more.
_NOT_THERE = frozenset(
    {"POWERING_UP", "POWERED_DOWN", "POWERING_DOWN", "NOT_RESPONDING", "DOWN", "UNKNOWN"}
)


def main() -> int:
    """One round over all scale sets; 1 where one of them could not be dealt with."""
    settings, metadata = begin()
    failed = False
    with locked(settings, "reconcile"):
        for name in settings.scale_sets:
            try:
                reconcile(settings, Capacity(settings, metadata, name), name)
            except (Failure, slurmctld.CommandFailed) as error:
                _log.error("%s: %s", name, error)
                failed = True
    return int(failed)


def reconcile(settings: Settings, capacity: Capacity, name: str) -> None:
    """One round over one scale set."""
    instances = capacity.instances()
    with opened(settings, name) as ledger:
        gone = lost(instances, ledger, among=list(ledger.claims))
        _mark_orphans(ledger, instances, settings.orphan_after)
        leaving = sorted(ledger.leaving)
        overdue = any(time.time() - since > _OVERDUE for since in ledger.wanted.values())
    slurmctld.update_nodes(settings, gone, "power_down_force", "Azure: the instance is gone")
    if overdue:
        capacity.make_do("the instance was not made in time")
    capacity.give_up_on_silent()
    capacity.delete(leaving)
    nodes = slurmctld.nodes(settings)
    states = {each: node.state for each, node in nodes.items()}
    _remember_bad_hosts(settings, name, nodes)
    hold = _look_after_hold(settings, name, states)
    slurmctld.update_nodes(settings, holds.releasable(settings, name, hold), "resume")
    kept = [f"{name}-{number}" for number in range(settings.scale_sets[name].kept)]
    slurmctld.update_nodes(settings, _asleep(states, kept), "power_up")


def _remember_bad_hosts(settings: Settings, name: str, nodes: Mapping[str, slurmctld.Node]) -> None:
    """Notes the hosts of nodes that the health check drained for their hardware."""
    with opened(settings, name) as ledger:
        for node, claim in ledger.claims.items():
            found = nodes.get(node)
            if found and found.has_bad_hardware:
                if claim.host and claim.host not in ledger.hosts:
                    _log.warning("%s: host %s of %s: %s", name, claim.host, node, found.reason)
                ledger.fail_host(claim.host, found.reason)


def _look_after_hold(settings: Settings, name: str, states: Mapping[str, frozenset[str]]) -> Hold:
    """Notes which instances became nodes, and whether somebody opened the partition again."""
    with opened(settings, name) as ledger:
        for node, claim in ledger.claims.items():
            if not claim.joined and states.get(node, _NOT_THERE).isdisjoint(_NOT_THERE):
                claim.joined = True
                ledger.hold.joined()
        if holds.reopened(settings, name, ledger.hold):
            _log.info("%s: the partition was opened again", name)
            ledger.hold.open()
        return ledger.hold


def _asleep(states: Mapping[str, frozenset[str]], names: list[str]) -> list[str]:
    """Those of the nodes that are in the cloud and not on their way, nor out of use."""
    return [
        name
        for name in names
        if "POWERED_DOWN" in states.get(name, ())
        and not states[name] & {"POWERING_UP", "POWER_UP", "POWERING_DOWN", "DOWN", "DRAIN"}
    ]


def _mark_orphans(ledger: Ledger, instances: list[Instance], after: float) -> None:
    """Instances that were there for long and have no name go, except those that are wanted."""
    now, candidates = time.time(), nameless(instances, ledger)
    ledger.see([each.id for each in candidates])
    old = [each for each in candidates if now - ledger.unnamed[each.id] >= after]
    old.sort(key=lambda each: (not each.failed, ledger.unnamed[each.id]))
    for each in old[: max(0, len(candidates) - len(ledger.wanted))]:
        _log.warning("nobody needs instance %s", each.id)
        ledger.dismiss(each.id)


if __name__ == "__main__":
    sys.exit(main())
