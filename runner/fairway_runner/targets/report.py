"""Reports the host of a target's node to Azure."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from fairway_core.findings import UserError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fairway_core.machine import Machine
    from fairway_core.target import Target
    from fairway_runner.live.guest_health import HealthReport
    from fairway_runner.live.management import Management


def report_of(
    target: Target, node: str, category: str, description: str | None = None
) -> HealthReport:
    """What is to be reported of that node, without a description why it is out of use.

    UserError where nobody knows which VM it is, or for an unknown category.
    """
    from fairway_core.catalog.guest_health import impact_category
    from fairway_runner.live.guest_health import HealthReport

    impact_category(category)
    machine, reason = _machine_of(target, node)
    said = description or reason
    if not said:
        message = f"{node} is not drained, and no description of its fault is given"
        raise UserError.of(
            "no-description", message, ('describe it, for example: --description "GPU 3 is lost"')
        )
    return HealthReport(machine, category, said)


@contextmanager
def subscription_of(machine: Machine) -> Iterator[Management]:
    """The subscription that the machine is in."""
    from fairway_runner.live.cloud import chosen_cloud, credential_for
    from fairway_runner.live.management import Management

    cloud = chosen_cloud()
    azure = Management(cloud, credential_for(cloud), machine.subscription)
    try:
        yield azure
    finally:
        azure.close()


def _machine_of(target: Target, name: str) -> tuple[Machine, str]:
    from fairway_core.suggestions import did_you_mean
    from fairway_runner.engines.capabilities import capabilities
    from fairway_runner.engines.engine import engine_for, unsupported

    engine = engine_for(target)
    if not capabilities(target.engine).machines:
        raise unsupported(
            engine, "find out which VM a node is", f"its nodes: fairway nodes list {target.name}"
        )
    nodes = {node.name: node for node in engine.nodes()}
    if name not in nodes:
        hint = did_you_mean(name, nodes) or f"fairway nodes list {target.name}"
        raise UserError.of("unknown-node", f"`{target.name}` has no node `{name}`", hint)
    machine = nodes[name].machine
    if machine is None:
        message = (
            f"the VM of {name} is not known: it has none now, or joined under an older scheduler"
        )
        raise UserError.of("unknown-vm", message, f"fairway nodes list {target.name}")
    return machine, nodes[name].reason
