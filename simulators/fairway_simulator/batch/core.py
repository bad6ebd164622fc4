"""The parts of the service, put together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fairway_simulator.batch.agent.commands import NodeAgent
from fairway_simulator.batch.agent.layout import Layout
from fairway_simulator.batch.agent.logins import Logins
from fairway_simulator.batch.agent.network import Network
from fairway_simulator.batch.clock import Clock
from fairway_simulator.batch.faults import Faults
from fairway_simulator.batch.model.account import Account
from fairway_simulator.batch.scheduling.fleet import Fleet
from fairway_simulator.batch.scheduling.jobs import JobEnds
from fairway_simulator.batch.scheduling.lifecycle import Lifecycle
from fairway_simulator.batch.scheduling.scheduler import Scheduler
from fairway_simulator.batch.scheduling.schedules import Schedules
from fairway_simulator.batch.wire.authentication import Authenticator

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from fairway_simulator.batch.agent.blobs import Blobs


@dataclass
class Core:
    """What the operations work on."""

    account: Account
    clock: Clock
    agent: NodeAgent
    lifecycle: Lifecycle
    jobs: JobEnds
    fleet: Fleet
    schedules: Schedules
    scheduler: Scheduler
    authenticator: Authenticator
    faults: Faults
    logins: Logins


def assemble(
    name: str,
    key: str,
    folder: Path,
    blobs: Blobs,
    *,
    images: Mapping[str, Sequence[str]],
    boot_seconds: float,
    seed: int,
    shared_network: bool,
    mounts: Sequence[Path],
) -> Core:
    """The parts of an account of this name and key, none of them started."""
    clock = Clock()
    account = Account(name, clock)
    network = Network(shared=shared_network)
    agent = NodeAgent(account, Layout(folder, mounts), blobs, images, network)
    ends = JobEnds(account, agent)
    lifecycle = Lifecycle(account, ends)
    schedules = Schedules(account, ends)
    return Core(
        account=account,
        clock=clock,
        agent=agent,
        lifecycle=lifecycle,
        jobs=ends,
        fleet=Fleet(account, agent, boot_seconds),
        schedules=schedules,
        scheduler=Scheduler(account, agent, lifecycle, ends, schedules.run),
        authenticator=Authenticator(name, key, clock),
        faults=Faults(seed),
        logins=Logins(agent),
    )
