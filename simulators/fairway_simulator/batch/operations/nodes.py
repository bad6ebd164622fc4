"""Operations on nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fairway_simulator.batch.operations import checks
from fairway_simulator.batch.scheduling.lifecycle import leave
from fairway_simulator.batch.wire.errors import ServiceError
from fairway_simulator.batch.wire.query import page, select
from fairway_simulator.batch.wire.router import answer, done

if TYPE_CHECKING:
    from fairway_simulator.batch.core import Core
    from fairway_simulator.batch.model.pool import Node
    from fairway_simulator.batch.wire.http import Request, Response
    from fairway_simulator.batch.wire.router import Operation

_OPTIONS = ("requeue", "terminate", "taskcompletion", "retaineddata")
_LOST = {"preempted", "unusable", "unknown", "leavingpool", "rebooting", "reimaging"}


def list_all(core: Core, request: Request, pool_id: str) -> Response:
    """List the nodes of a pool."""
    with core.account.changed:
        nodes = core.account.pool(pool_id).nodes.values()
        entries = [
            (number, lambda node=node: node.wire(core.clock))
            for number, node in enumerate(nodes, start=1)
        ]
        return answer(page(request, core.account.url, entries))


def get(core: Core, request: Request, pool_id: str, node_id: str) -> Response:
    """Get a node."""
    with core.account.changed:
        node = core.account.node(pool_id, node_id)
        return answer(select(request.query)(node.wire(core.clock)))


def reboot(core: Core, request: Request, pool_id: str, node_id: str) -> Response:
    """Reboot a node."""
    return _restart(core, request, pool_id, node_id, "nodeRebootOption")


def reimage(core: Core, request: Request, pool_id: str, node_id: str) -> Response:
    """Give a node a new disk, and boot it."""
    return _restart(core, request, pool_id, node_id, "nodeReimageOption")


def _restart(core: Core, request: Request, pool_id: str, node_id: str, name: str) -> Response:
    option = _option(request, name)
    with core.account.changed:
        node = core.account.node(pool_id, node_id)
        if node.state in _LOST and node.state != "unusable":
            raise ServiceError(409, "NodeStateInvalid", "The node cannot be restarted now.")
        core.fleet.restart(node, option, wipe=name == "nodeReimageOption")
        return done(202, url=node.url)


def _option(request: Request, name: str) -> str:
    body: dict[str, Any] = request.json() if request.body else {}
    checks.one_of(body, name, _OPTIONS)
    return str(body.get(name) or "requeue").lower()


def disable_scheduling(core: Core, request: Request, pool_id: str, node_id: str) -> Response:
    """Give a node no tasks any more."""
    option = _option(request, "nodeDisableSchedulingOption")
    with core.account.changed:
        node = core.account.node(pool_id, node_id)
        if not node.schedulable:
            raise ServiceError(409, "NodeAlreadyInTargetSchedulingState")
        node.schedulable = False
        leave(node, option, core.clock.now())
        if node.state == "idle":
            node.become("offline", core.clock.now())
        core.account.changed.notify_all()
        return done(200, url=node.url)


def enable_scheduling(core: Core, request: Request, pool_id: str, node_id: str) -> Response:
    """Give a node tasks again. The operation has no body."""
    if request.body:
        raise ServiceError(400, "InvalidRequestBody")
    with core.account.changed:
        node = core.account.node(pool_id, node_id)
        if node.schedulable:
            raise ServiceError(409, "NodeAlreadyInTargetSchedulingState")
        node.schedulable = True
        if node.state == "offline":
            node.become("idle", core.clock.now())
        core.account.changed.notify_all()
        return done(200, url=node.url)


def remote_login(core: Core, _: Request, pool_id: str, node_id: str) -> Response:
    """Say where a node's ssh server is, where the pool maps a port to it: none does by itself any
    more (learn.microsoft.com/azure/batch/pool-endpoint-configuration)."""
    with core.account.changed:
        node = _ready(core, pool_id, node_id)
        network = node.pool.spec.get("networkConfiguration") or {}
        ports = (network.get("endpointConfiguration") or {}).get("inboundNATPools") or ()
        if not any(each.get("backendPort") == 22 for each in ports):
            raise ServiceError(409, "OperationInvalidForCurrentState")
    address, port = core.logins.endpoint(node)
    return answer({"remoteLoginIPAddress": address, "remoteLoginPort": port})


def create_user(core: Core, request: Request, pool_id: str, node_id: str) -> Response:
    """Add a user to a node."""
    body = request.json()
    name = str(checks.required(body, "name"))
    with core.account.changed:
        node = _ready(core, pool_id, node_id)
        if name in node.users:
            raise ServiceError(409, "NodeUserExists")
        node.users[name] = body
    core.logins.write(node)
    return done(201, url=f"{node.url}/users/{name}")


def replace_user(core: Core, request: Request, pool_id: str, node_id: str, name: str) -> Response:
    """Change a node's user."""
    body = request.json()
    with core.account.changed:
        node = _ready(core, pool_id, node_id)
        if name not in node.users:
            raise ServiceError(404, "NodeUserNotFound")
        node.users[name] |= body
    core.logins.write(node)
    return done(200, url=f"{node.url}/users/{name}")


def delete_user(core: Core, _: Request, pool_id: str, node_id: str, name: str) -> Response:
    """Remove a user from a node."""
    with core.account.changed:
        node = _ready(core, pool_id, node_id)
        if node.users.pop(name, None) is None:
            raise ServiceError(404, "NodeUserNotFound")
    core.logins.write(node)
    return done(200)


def _ready(core: Core, pool_id: str, node_id: str) -> Node:
    node = core.account.node(pool_id, node_id)
    if node.state in _LOST | {"creating", "starting"}:
        raise ServiceError(409, "NodeNotReady")
    return node


OPERATIONS: list[Operation] = [
    ("GET", "/pools/{poolId}/nodes", list_all),
    ("GET", "/pools/{poolId}/nodes/{nodeId}", get),
    ("POST", "/pools/{poolId}/nodes/{nodeId}/reboot", reboot),
    ("POST", "/pools/{poolId}/nodes/{nodeId}/reimage", reimage),
    ("POST", "/pools/{poolId}/nodes/{nodeId}/disablescheduling", disable_scheduling),
    ("POST", "/pools/{poolId}/nodes/{nodeId}/enablescheduling", enable_scheduling),
    ("GET", "/pools/{poolId}/nodes/{nodeId}/remoteloginsettings", remote_login),
    ("POST", "/pools/{poolId}/nodes/{nodeId}/users", create_user),
    ("PUT", "/pools/{poolId}/nodes/{nodeId}/users/{userName}", replace_user),
    ("DELETE", "/pools/{poolId}/nodes/{nodeId}/users/{userName}", delete_user),
]
