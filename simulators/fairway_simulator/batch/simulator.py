"""The Batch account as one object: `with BatchSimulator(folder=…) as service:`."""

from __future__ import annotations

import base64
import secrets
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlsplit

from fairway_simulator.batch.agent.transfers import Blobs, StorageAccess
from fairway_simulator.batch.azurite import Azurite
from fairway_simulator.batch.core import Core
from fairway_simulator.batch.operations import jobs, own, pools, tasks
from fairway_simulator.batch.wire.router import Router
from fairway_simulator.certificate import serve_as_localhost
from fairway_simulator.http import Server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from fairway_simulator.batch.model.pool import Node
    from fairway_simulator.batch.wire.router import Operation
    from fairway_simulator.faults import Faults

IDENTITY = (
    "/subscriptions/00000000-0000-0000-0000-000000000000/resourceGroups/sim/providers/"
    "Microsoft.ManagedIdentity/userAssignedIdentities/sim"
)
"""The identity of the pools, which may read and write the account's storage."""

CONTAINERS = ("datasets", "outputs", "code")
"""The initial containers of the storage."""

DEFAULT_POOL = "sim"
_PATIENCE = 300.0  # seconds; only a hang takes that long

OPERATIONS: list[Operation] = [
    *jobs.OPERATIONS,
    *tasks.OPERATIONS,
    *pools.OPERATIONS,
    *own.OPERATIONS,
]
"""All operations of the account."""

_SSH = {
    "name": "ssh",
    "protocol": "tcp",
    "backendPort": 22,
    "frontendPortRangeStart": 50000,
    "frontendPortRangeEnd": 50999,
}
"""Endpoint for logins to a pool's nodes; Fairway's pools have no public address for it."""


class BatchSimulator:
    """A Batch account on loopback, whose nodes run real processes.

    `folder` holds all files. The pool `sim` has `nodes` nodes that may communicate with each other.
    With `storage`, Azurite runs beside the account; `storage_access` is an existing storage account
    instead. With `tls`, the account serves https with its own certificate, `ca_file`, and accepts
    the tokens of `issue_token`. With `images`, each with its entry point, the pool runs containers.
    Nodes have their own networks if this machine allows that, unless `shared_network`; they see the
    folders `mounts` as this machine does.
    """

    def __init__(
        self,
        folder: Path,
        *,
        nodes: int = 4,
        vm_size: str = "Standard_D4s_v6",
        slots: int = 1,
        inter_node: bool = True,
        key: str | None = None,
        port: int = 0,
        storage: bool = False,
        storage_access: StorageAccess | None = None,
        tls: bool = False,
        images: Mapping[str, Sequence[str]] | None = None,
        shared_network: bool = False,
        mounts: Sequence[Path] = (),
    ) -> None:
        self.folder = folder.resolve()
        self.account = "simulated"
        self.key = key or base64.b64encode(secrets.token_bytes(64)).decode()
        self._wanted_storage = storage
        self._storage = storage_access
        self._azurite: Azurite | None = None
        self.ca_file: Path | None = self.folder / "ca.pem" if tls else None
        """The certificate with which clients verify the server, with `tls`."""
        self._port = port
        self._nodes: dict[str, Any] = {
            "images": images or {},
            "shared_network": shared_network,
            "mounts": mounts,
        }
        self._pool: dict[str, Any] = {
            "id": DEFAULT_POOL,
            "vmSize": vm_size,
            "taskSlotsPerNode": slots,
            "enableInterNodeCommunication": inter_node,
            "networkConfiguration": {"endpointConfiguration": {"inboundNATPools": [_SSH]}},
            "targetDedicatedNodes": nodes,
        }
        if images:
            containers = {"type": "DockerCompatible", "containerImageNames": list(images)}
            self._pool["virtualMachineConfiguration"] = {"containerConfiguration": containers}
        self.endpoint = ""
        self._core: Core
        self._server: Server

    # -- start and stop ----------------------------------------------------------------

    def start(self) -> Self:
        """Starts the account, ready for requests on return. Raises OSError if the port is taken."""
        self.folder.mkdir(parents=True, exist_ok=True)
        blobs = Blobs(self._storage, IDENTITY)
        core = self._core = Core(self.account, self.key, self.folder, blobs, **self._nodes)
        core.schedules.add_job = lambda spec: jobs.add(core, spec)
        tls = serve_as_localhost(self.folder)[0] if self.ca_file else None
        self._server = Server(Router(core, OPERATIONS), tls, self._port)
        self.endpoint = core.account.url = self._server.url
        if self._wanted_storage and self._storage is None:
            try:
                self._azurite = Azurite(self.folder / "storage", CONTAINERS)
            except BaseException:
                self._server.stop()
                raise
            self._storage = blobs.access = self._azurite.access
        self._lead_nodes_here()
        self.add_pool(**self._pool)
        core.scheduler.start()
        self._server.start()
        return self

    def _lead_nodes_here(self) -> None:
        """Lets nodes reach the account and its storage at the addresses that these have here."""
        self.lead_nodes_to(self._server.port)
        if self._storage is not None:
            self.lead_nodes_to(urlsplit(self._storage.url).port or 80)

    def lead_nodes_to(self, port: int) -> None:
        """Lets nodes reach the server at that port of 127.0.0.1."""
        self._core.agent.network.lead_to(port)

    @property
    def nodes_share_network(self) -> bool:
        """True if nodes share this machine's network, its ports and all that it reaches."""
        return self._core.agent.network.shared

    def stop(self) -> None:
        self._core.faults.stop()
        self._server.stop()
        self._core.scheduler.stop()
        self._core.fleet.stop()
        self._core.agent.processes.close()
        self._core.agent.network.close()
        if self._azurite:
            self._azurite.stop()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    # -- access for clients ---------------------------------------------------------------

    @property
    def port(self) -> int:
        return self._server.port

    @property
    def storage_connection_string(self) -> str | None:
        """The value of AZURE_STORAGE_CONNECTION_STRING; None without storage."""
        return self._storage.connection_string if self._storage else None

    def environment(self) -> dict[str, str]:
        variables = {
            "AZURE_BATCH_ACCOUNT": self.account,
            "AZURE_BATCH_ENDPOINT": self.endpoint,
            "AZURE_BATCH_ACCESS_KEY": self.key,
        }
        if self.storage_connection_string:
            variables["AZURE_STORAGE_CONNECTION_STRING"] = self.storage_connection_string
        return variables

    def issue_token(self, lifetime: float = 3600.0) -> str:
        """Returns a bearer token, valid for `lifetime` seconds of the service's clock."""
        token = secrets.token_urlsafe(32)
        expires = self._core.clock.time().timestamp() + lifetime
        self._core.authenticator.tokens[token] = expires
        return token

    # -- state and events -------------------------------------------------------------------

    @property
    def faults(self) -> Faults:
        return self._core.faults

    def add_pool(self, id: str, vmSize: str = "Standard_D4s_v6", **spec: Any) -> None:  # noqa: A002, N803 - wire names
        """Adds a pool; properties have their wire names (`targetDedicatedNodes=2`)."""
        with self._core.account.changed:
            pools.add(self._core, {"id": id, "vmSize": vmSize, **spec})

    def node_ids(self, pool: str = DEFAULT_POOL) -> list[str]:
        with self._core.account.changed:
            return list(self._core.account.pool(pool).nodes)

    def node_folder(self, node: str) -> Path:
        """Returns a node's folder, which its tasks see as AZ_BATCH_NODE_ROOT_DIR."""
        with self.node(node) as found:
            return found.folder

    @property
    def shared_folder(self) -> Path:
        """The folder that all nodes see as `$AZ_BATCH_NODE_MOUNTS_DIR/shared`."""
        return self._core.agent.layout.shared

    @contextmanager
    def node(self, node: str) -> Iterator[Node]:
        """Yields a node of the pool `sim`, while holding the account's lock."""
        with self._core.account.changed:
            yield self._core.account.node(DEFAULT_POOL, node)

    def preempt(self, node: str, *, notice: float = 0.0) -> None:
        """Evicts a node as Spot does, after `notice` seconds announced in its Scheduled Events."""
        with self.node(node) as found:
            self._core.fleet.preempt(found, notice)

    def lose(self, node: str) -> None:
        """Makes a node stop responding: its state is unknown and its files cannot be read."""
        with self.node(node) as found:
            self._core.fleet.lose(found, "unknown")

    def restore(self, node: str) -> None:
        with self.node(node) as found:
            self._core.fleet.restore(found)

    def limit_pool(self, nodes: int | None, *, pool: str = DEFAULT_POOL) -> None:
        """Limits a pool's nodes, and reports a resize error if more are wanted; None: no limit."""
        with self._core.account.changed:
            found = self._core.account.pool(pool)
            found.limit = nodes
            self._core.fleet.resize(found)

    def limit_jobs(self, quota: int | None) -> None:
        """Limits the number of active jobs and schedules; None: no limit."""
        with self._core.account.changed:
            self._core.account.quota = quota

    def wait_until(self, test: Callable[[], bool]) -> None:
        """Waits until `test`, which may call the service, returns True; tests at every change of
        the account. Raises TimeoutError after some minutes."""
        until = time.monotonic() + _PATIENCE
        while not test():
            if time.monotonic() > until:
                raise TimeoutError(f"it has not come about within {_PATIENCE:g} s")
            with self._core.account.changed:
                # A change between the test and this line is seen at the next poll.
                self._core.account.changed.wait(0.05)

    def wait_for_task(self, job: str, task: str, state: str = "completed") -> None:
        self.wait_until(lambda: self._core.account.task(job, task).state == state)

    def wait_for_job(self, job: str, state: str = "completed") -> None:
        """Waits until a job exists and is in a state."""
        jobs = self._core.account.jobs

        def reached() -> bool:
            found = jobs.get(job.lower())
            return found is not None and found.state == state

        self.wait_until(reached)

    def wait_for_node(self, node: str, state: str) -> None:
        self.wait_until(lambda: self._core.account.node(DEFAULT_POOL, node).state == state)

    def advance(self, seconds: float) -> None:
        with self._core.account.changed:
            self._core.clock.advance(seconds)
            self._core.account.changed.notify_all()
