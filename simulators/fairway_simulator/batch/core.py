"""The parts of the service, put together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairway_simulator.batch.agent.commands import NodeAgent
from fairway_simulator.batch.agent.layout import Layout
from fairway_simulator.batch.agent.logins import Logins
from fairway_simulator.batch.agent.network import Network
from fairway_simulator.batch.model.account import Account
from fairway_simulator.batch.model.entity import Clock
from fairway_simulator.batch.scheduling.fleet import Fleet
from fairway_simulator.batch.scheduling.jobs import JobEnds, Schedules
from fairway_simulator.batch.scheduling.lifecycle import Lifecycle
from fairway_simulator.batch.scheduling.scheduler import Scheduler
from fairway_simulator.batch.wire.authentication import Authenticator
from fairway_simulator.batch.wire.errors import ServiceError
from fairway_simulator.faults import Fault, Faults

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from fairway_simulator.batch.agent.blobs import Blobs


_CODES = {
    429: "TooManyRequests",
    500: "InternalError",
    502: "BadGateway",
    503: "ServerBusy",
    504: "OperationTimedOut",
}


class Core:
    """What the operations work on: the parts of an account, none of them started."""

    def __init__(
        self,
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
    ) -> None:
        self.clock = Clock()
        self.account = Account(name, self.clock)
        network = Network(shared=shared_network)
        self.agent = NodeAgent(self.account, Layout(folder, mounts), blobs, images, network)
        self.jobs = JobEnds(self.account, self.agent)
        self.lifecycle = Lifecycle(self.account, self.jobs)
        self.schedules = Schedules(self.account, self.jobs)
        self.fleet = Fleet(self.account, self.agent, boot_seconds)
        self.scheduler = Scheduler(
            self.account, self.agent, self.lifecycle, self.jobs, self.schedules.run
        )
        self.authenticator = Authenticator(name, key, self.clock)
        self.faults = Faults(_refuse, seed)
        self.logins = Logins(self.agent)


def _refuse(fault: Fault) -> ServiceError:
    if fault.kind == "expired":
        return ServiceError(401, "AuthenticationFailed", "The token has expired.")
    details = {} if fault.retry_after is None else {"retry_after": fault.retry_after}
    return ServiceError(fault.status, _CODES.get(fault.status, "InternalError"), "", **details)
