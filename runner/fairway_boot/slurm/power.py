"""Creates and deletes nodes as slurmctld asks, and repairs each minute what went wrong.

    power resume|suspend|resume-fail HOSTLIST
    power reconcile

The first are slurm.conf's ResumeProgram, SuspendProgram and ResumeFailProgram. `reconcile` keeps
Slurm's view, the registry and Azure's instances consistent: Azure takes Spot nodes away, programs
are interrupted, and the scheduler restarts. It completes whatever was left undone: so a node that
is gone returns to the cloud state, and no instance stays that nobody needs.
"""

from __future__ import annotations

import logging
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from fairway_boot.http import Failure
from fairway_boot.slurm import commands, node_registry
from fairway_boot.slurm.capacity import Capacity, drop_lost_nodes, unregistered_instances
from fairway_boot.slurm.node_registry import Hold, locked, open_registry
from fairway_boot.slurm.settings import begin

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from fairway_boot.imds import Metadata
    from fairway_boot.slurm.settings import Settings

_log = logging.getLogger(__name__)
# Long enough for a resume program, which does the same, to finish.
_OVERDUE = 120.0
# Any of these means that a node's slurmd has not answered yet, or no longer does.
_NOT_THERE = frozenset(
    {"POWERING_UP", "POWERED_DOWN", "POWERING_DOWN", "NOT_RESPONDING", "DOWN", "UNKNOWN"}
)


def main(arguments: list[str]) -> int:
    """Returns 0, 1 if a scale set could not be handled, which is logged, or 2 for other
    arguments."""
    if arguments == ["reconcile"]:
        return reconcile_all(*begin())
    if len(arguments) != 2 or arguments[0] not in _WORK:
        sys.stderr.write(f"usage: {'|'.join(_WORK)} HOSTLIST, or reconcile\n")
        return 2
    what, host_list = arguments
    return change_power(what, host_list, *begin())


def change_power(what: str, host_list: str, settings: Settings, metadata: Metadata) -> int:
    """Carries out slurmctld's request for the nodes of a host list, all scale sets in parallel.
    Returns 1 if one could not be handled."""
    _log.info("%s %s", what, host_list)
    groups: dict[str, list[str]] = {}
    for node in commands.expand(host_list):
        groups.setdefault(commands.partition_of(node), []).append(node)
    known = {name: nodes for name, nodes in groups.items() if name in settings.scale_sets}
    for name in groups.keys() - known.keys():
        _log.error("no scale set is called %s", name)

    def one(name: str) -> bool:
        try:
            _WORK[what](Capacity(settings, metadata, name), known[name], settings)
        except (Failure, commands.CommandFailed) as error:
            _log.error("%s: %s", name, error)
            return False
        return True

    with ThreadPoolExecutor(max_workers=8) as pool:
        done = list(pool.map(one, known))
    return 0 if all(done) and len(known) == len(groups) else 1


def suspend(capacity: Capacity, names: list[str], settings: Settings) -> None:
    """Deletes the instances of nodes that nobody needs."""
    unwanted = names
    try:
        # slurmctld may request a node's end and its start at once, and the two programs then run
        # concurrently: the node's present state decides.
        nodes = commands.nodes(settings)
        awaited = [name for name, node in nodes.items() if "POWERING_UP" in node.state]
        unwanted = [name for name in names if name not in awaited]
    except commands.CommandFailed as error:
        _log.warning("%s; deleting as told", error)
    try:
        capacity.keep_out(unwanted)
    except commands.CommandFailed as error:
        _log.warning("%s", error)
    capacity.release(unwanted)


def resume_fail(capacity: Capacity, names: list[str], _: Settings) -> None:
    """Puts nodes that did not come up in time back into the cloud state, after a rest."""
    try:
        capacity.give_up_on(names)
    finally:
        capacity.put_back(names)


_WORK: dict[str, Callable[[Capacity, list[str], Settings], None]] = {
    "resume": lambda capacity, names, _: capacity.grow(names),
    "suspend": suspend,
    "resume-fail": resume_fail,
}


def reconcile_all(settings: Settings, metadata: Metadata) -> int:
    """Runs one round over all scale sets; returns 1 if one of them could not be handled."""
    failed = False
    with locked(settings, "reconcile"):
        for name in settings.scale_sets:
            try:
                reconcile(settings, Capacity(settings, metadata, name), name)
            except (Failure, commands.CommandFailed) as error:
                _log.error("%s: %s", name, error)
                failed = True
    return int(failed)


def reconcile(settings: Settings, capacity: Capacity, name: str) -> None:
    """Runs one round over one scale set."""
    instances = capacity.client.instances()
    with open_registry(settings, name) as registry:
        gone = drop_lost_nodes(instances, registry, among=list(registry.claims))
        candidates = unregistered_instances(instances, registry)
        before = time.time() - settings.orphan_after
        registry.see([each.id for each in candidates])
        old = [each for each in candidates if registry.unnamed[each.id] <= before]
        old.sort(key=lambda each: (not each.failed, registry.unnamed[each.id]))
        for each in old[: max(0, len(candidates) - len(registry.wanted))]:
            _log.warning("nobody needs instance %s", each.id)
            registry.dismiss(each.id)
        leaving = sorted(registry.leaving)
        overdue = any(time.time() - since > _OVERDUE for since in registry.wanted.values())
    commands.update_nodes(settings, gone, "power_down_force", "Azure: the instance is gone")
    if overdue:
        capacity.make_do("the instance was not made in time")
    capacity.give_up_on_silent()
    capacity.delete(leaving)
    nodes = commands.nodes(settings)
    hold = _note(settings, name, nodes)
    commands.update_nodes(settings, node_registry.releasable(settings, name, hold), "resume")
    # Nodes that are always kept, if powered down, and neither starting nor out of service.
    kept = [f"{name}-{number}" for number in range(settings.scale_sets[name].kept)]
    busy = {"POWERING_UP", "POWER_UP", "POWERING_DOWN", "DOWN", "DRAIN"}
    known = [(each, nodes[each].state) for each in kept if each in nodes]
    names = [each for each, state in known if "POWERED_DOWN" in state and not state & busy]
    commands.update_nodes(settings, names, "power_up")


def _note(settings: Settings, name: str, nodes: Mapping[str, commands.Node]) -> Hold:
    """Records which instances became nodes, the hosts of those that the health check drained for
    their hardware, and if somebody has opened the partition again."""
    with open_registry(settings, name) as registry:
        for each, claim in registry.claims.items():
            if (node := nodes.get(each)) is None:
                continue
            if node.has_bad_hardware:
                if claim.host and claim.host not in registry.hosts:
                    _log.warning("%s: host %s of %s: %s", name, claim.host, each, node.reason)
                registry.fail_host(claim.host, node.reason)
            if not claim.joined and node.state.isdisjoint(_NOT_THERE):
                claim.joined = True
                registry.hold.misses = 0
        partition = ("scontrol", "-o", "show", "partition", name)
        if registry.hold.closed and " State=UP" in commands.run_command(settings, *partition):
            _log.info("%s: the partition was opened again", name)
            registry.hold = Hold()
        return registry.hold


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
