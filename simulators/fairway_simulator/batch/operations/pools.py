"""Operations on pools and their nodes."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from fairway_simulator.batch.model.pool import Pool
from fairway_simulator.batch.operations import checks
from fairway_simulator.batch.scheduling.formula import FormulaError, evaluate
from fairway_simulator.batch.wire.bodies import ServiceError, invalid_property
from fairway_simulator.batch.wire.router import answer, done, entity_answer, page

if TYPE_CHECKING:
    from fairway_simulator.batch.core import Core
    from fairway_simulator.batch.model.pool import Node
    from fairway_simulator.batch.wire.router import Later, Operation
    from fairway_simulator.http import Answer, Request

_LOST = {"preempted", "unusable", "unknown", "leavingpool", "rebooting", "reimaging"}


def add(core: Core, spec: dict[str, Any]) -> Pool:
    """Adds a pool from a specification; the caller holds the lock."""
    checks.identifier(spec)
    checks.required(spec, "vmSize")
    checks.absent(spec, "startTask", "mountConfiguration")
    checks.slots(spec)
    checks.sizing(spec)
    if spec["id"].lower() in core.account.pools:
        raise ServiceError(409, "PoolExists")
    autoscales = bool(spec.get("enableAutoScale"))
    if autoscales and spec.get("targetDedicatedNodes") is not None:
        reason = "goes without enableAutoScale"
        raise invalid_property("targetDedicatedNodes", spec["targetDedicatedNodes"], reason)
    mixed = spec.get("targetDedicatedNodes") and spec.get("targetLowPriorityNodes")
    if mixed and spec.get("enableInterNodeCommunication"):
        reason = "a pool with inter-node communication has nodes of one kind"
        raise invalid_property("targetLowPriorityNodes", spec["targetLowPriorityNodes"], reason)
    pool = Pool(spec, core.account.url, core.clock.now())
    core.account.pools[pool.key] = pool
    if autoscales:
        text = str(spec.get("autoScaleFormula") or "")
        try:
            result = evaluate(text, core.account, pool, core.clock.time())
        except FormulaError as error:
            raise invalid_property("autoScaleFormula", text, str(error)) from None
        pool.target_dedicated, pool.target_spot = result["dedicated"], result["spot"]
    core.fleet.resize(pool)
    return pool


def get(core: Core, request: Request, pool_id: str) -> Answer:
    pool = core.account.pool(pool_id)
    return entity_answer(request, pool, pool.wire())


def resize(core: Core, request: Request, pool_id: str) -> Answer:
    body = request.document
    checks.sizing(body)
    _require_option(request, "nodeDeallocationOption", "taskcompletion")
    if body.get("targetDedicatedNodes") is None and body.get("targetLowPriorityNodes") is None:
        raise ServiceError(400, "MissingRequiredProperty", PropertyName="targetDedicatedNodes")
    pool = core.account.pool(pool_id)
    if pool.spec["enableAutoScale"]:
        raise ServiceError(409, "PoolAutoScaleEnabled")
    if pool.allocation_state != "steady":
        # Only one resize at a time: see begin_resize_pool in azure-batch.
        raise ServiceError(409, "PoolBeingResized")
    pool.target_dedicated = int(body.get("targetDedicatedNodes") or 0)
    pool.target_spot = int(body.get("targetLowPriorityNodes") or 0)
    core.fleet.resize(pool)
    return done(202, pool, pool.url)


def _require_option(request: Request, name: str, known: str) -> None:
    """Refuses any option for a node's tasks except the one that Fairway uses for an operation: the
    simulator has no other and no default."""
    checks.required(request.document, name)
    checks.one_of(request.document, name, (known,))


def list_nodes(core: Core, request: Request, pool_id: str) -> Answer:
    nodes = core.account.pool(pool_id).nodes.values()
    return page(core, request, enumerate((partial(each.wire, core.clock) for each in nodes), 1))


def get_node(core: Core, request: Request, pool_id: str, node_id: str) -> Answer:
    node = core.account.node(pool_id, node_id)
    return entity_answer(request, node, node.wire(core.clock))


def reboot(core: Core, request: Request, pool_id: str, node_id: str) -> Answer:
    return _restart(core, request, pool_id, node_id, "nodeRebootOption")


def reimage(core: Core, request: Request, pool_id: str, node_id: str) -> Answer:
    return _restart(core, request, pool_id, node_id, "nodeReimageOption")


def _restart(core: Core, request: Request, pool_id: str, node_id: str, name: str) -> Answer:
    _require_option(request, name, "requeue")
    node = core.account.node(pool_id, node_id)
    if node.state in _LOST and node.state != "unusable":
        raise ServiceError(409, "NodeStateInvalid", "The node cannot be restarted now.")
    core.fleet.restart(node, wipe=name == "nodeReimageOption")
    return done(202, url=node.url)


def disable_scheduling(core: Core, request: Request, pool_id: str, node_id: str) -> Answer:
    _require_option(request, "nodeDisableSchedulingOption", "taskcompletion")
    node = core.account.node(pool_id, node_id)
    if not node.schedulable:
        raise ServiceError(409, "NodeAlreadyInTargetSchedulingState")
    node.schedulable = False
    if node.state == "idle":
        node.become("offline", core.clock.now())
    return done(200, url=node.url)


def enable_scheduling(core: Core, request: Request, pool_id: str, node_id: str) -> Answer:
    """Enable a node for tasks again. The operation has no body."""
    if request.body:
        raise ServiceError(400, "InvalidRequestBody")
    node = core.account.node(pool_id, node_id)
    if node.schedulable:
        raise ServiceError(409, "NodeAlreadyInTargetSchedulingState")
    node.schedulable = True
    if node.state == "offline":
        node.become("idle", core.clock.now())
    return done(200, url=node.url)


def remote_login(core: Core, _: Request, pool_id: str, node_id: str) -> Later:
    """Return the endpoint of a node's ssh server, if the pool maps a port to it: no pool does so by
    default any more (learn.microsoft.com/azure/batch/pool-endpoint-configuration)."""
    node = _ready(core, pool_id, node_id)
    network = node.pool.spec.get("networkConfiguration") or {}
    ports = (network.get("endpointConfiguration") or {}).get("inboundNATPools") or ()
    if not any(each.get("backendPort") == 22 for each in ports):
        raise ServiceError(409, "OperationInvalidForCurrentState")

    def found() -> Answer:
        address, port = core.logins.endpoint(node)
        return answer({"remoteLoginIPAddress": address, "remoteLoginPort": port})

    return found


def create_user(core: Core, request: Request, pool_id: str, node_id: str) -> Answer:
    name = str(checks.required(request.document, "name"))
    node = _ready(core, pool_id, node_id)
    if name in node.users:
        raise ServiceError(409, "NodeUserExists")
    node.users[name] = request.document
    core.logins.write(node)
    return done(201, url=f"{node.url}/users/{name}")


def replace_user(core: Core, request: Request, pool_id: str, node_id: str, name: str) -> Answer:
    node = _ready(core, pool_id, node_id)
    if name not in node.users:
        raise ServiceError(404, "NodeUserNotFound")
    node.users[name] |= request.document
    core.logins.write(node)
    return done(200, url=f"{node.url}/users/{name}")


def delete_user(core: Core, _: Request, pool_id: str, node_id: str, name: str) -> Answer:
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


_NODE = "/pools/{poolId}/nodes/{nodeId}"
OPERATIONS: list[Operation] = [
    ("GET", "/pools/{poolId}", get),
    ("POST", "/pools/{poolId}/resize", resize),
    ("GET", "/pools/{poolId}/nodes", list_nodes),
    ("GET", _NODE, get_node),
    ("POST", f"{_NODE}/reboot", reboot),
    ("POST", f"{_NODE}/reimage", reimage),
    ("POST", f"{_NODE}/disablescheduling", disable_scheduling),
    ("POST", f"{_NODE}/enablescheduling", enable_scheduling),
    ("GET", f"{_NODE}/remoteloginsettings", remote_login),
    ("POST", f"{_NODE}/users", create_user),
    ("PUT", f"{_NODE}/users/{{userName}}", replace_user),
    ("DELETE", f"{_NODE}/users/{{userName}}", delete_user),
]
