"""Operations on pools."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fairway_simulator.batch.model.pool import Pool
from fairway_simulator.batch.operations import checks
from fairway_simulator.batch.scheduling.formula import FormulaError, evaluate
from fairway_simulator.batch.wire import preconditions
from fairway_simulator.batch.wire.errors import ServiceError, invalid_property, not_found
from fairway_simulator.batch.wire.http import Response
from fairway_simulator.batch.wire.query import page, select
from fairway_simulator.batch.wire.router import answer, done, entity_answer, entity_headers

if TYPE_CHECKING:
    from fairway_simulator.batch.core import Core
    from fairway_simulator.batch.wire.http import Request
    from fairway_simulator.batch.wire.router import Operation

_OPTIONS = ("requeue", "terminate", "taskcompletion", "retaineddata")
_MOST_REMOVED = 100  # nodes in one request: see remove_nodes in azure-batch


def create(core: Core, request: Request) -> Response:
    """Add a pool."""
    body = request.json()
    with core.account.changed:
        pool = add(core, body)
        return done(201, pool, pool.url)


def add(core: Core, spec: dict[str, Any]) -> Pool:
    """Makes a pool of a specification; the caller holds the lock."""
    checks.identifier(spec)
    checks.required(spec, "vmSize")
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
        _scale(core, pool, str(spec.get("autoScaleFormula") or ""))
    core.fleet.resize(pool)
    return pool


def list_all(core: Core, request: Request) -> Response:
    """List the account's pools."""
    with core.account.changed:
        entries = list(enumerate((pool.wire for pool in core.account.pools.values()), start=1))
        return answer(page(request, core.account.url, entries))


def get(core: Core, request: Request, pool_id: str) -> Response:
    """Get a pool."""
    with core.account.changed:
        pool = core.account.pool(pool_id)
        preconditions.check(request, pool)
        return entity_answer(pool, select(request.query)(pool.wire()))


def exists(core: Core, _: Request, pool_id: str) -> Response:
    """Check whether a pool exists."""
    with core.account.changed:
        pool = core.account.pools.get(pool_id.lower())
        return Response(200, entity_headers(pool)) if pool else Response(404)


def update(core: Core, request: Request, pool_id: str) -> Response:
    """Change the properties that are given; a start task runs when a node boots next."""
    body = request.json()
    with core.account.changed:
        pool = core.account.pool(pool_id)
        preconditions.check(request, pool)
        pool.spec |= {
            name: value
            for name, value in body.items()
            if name in {"startTask", "metadata", "displayName"} and value is not None
        }
        pool.touch(core.clock.now())
        return done(200, pool, pool.url)


def delete(core: Core, request: Request, pool_id: str) -> Response:
    """Delete a pool."""
    with core.account.changed:
        pool = core.account.pool(pool_id)
        preconditions.check(request, pool)
        pool.become("deleting", core.clock.now())
        pool.target_dedicated = pool.target_spot = 0
        core.fleet.resize(pool)
        core.account.pools.pop(pool.key)
        return done(202)


def resize(core: Core, request: Request, pool_id: str) -> Response:
    """Change a pool's size."""
    body = request.json()
    checks.one_of(body, "nodeDeallocationOption", _OPTIONS)
    checks.sizing(body)
    if body.get("targetDedicatedNodes") is None and body.get("targetLowPriorityNodes") is None:
        raise ServiceError(400, "MissingRequiredProperty", PropertyName="targetDedicatedNodes")
    with core.account.changed:
        pool = core.account.pool(pool_id)
        preconditions.check(request, pool)
        if pool.spec["enableAutoScale"]:
            raise ServiceError(409, "PoolAutoScaleEnabled")
        _steady(pool)
        pool.target_dedicated = int(body.get("targetDedicatedNodes") or 0)
        pool.target_spot = int(body.get("targetLowPriorityNodes") or 0)
        core.fleet.resize(pool, str(body.get("nodeDeallocationOption") or "requeue").lower())
        return done(202, pool, pool.url)


def stop_resize(core: Core, request: Request, pool_id: str) -> Response:
    """Leave a pool at the size that it has reached."""
    with core.account.changed:
        pool = core.account.pool(pool_id)
        preconditions.check(request, pool)
        if pool.allocation_state == "steady":
            raise ServiceError(409, "OperationInvalidForCurrentState")
        pool.target_dedicated = len(pool.members(dedicated=True))
        pool.target_spot = len(pool.members(dedicated=False))
        message = (
            "Desired number of dedicated nodes could not be allocated as the resize operation "
            "was stopped"
        )
        error = {"code": "ResizeStopped", "message": message}
        pool.resize_errors = [error]
        pool.allocate("stopping", core.clock.now())
        core.fleet.settle(pool)
        return done(202, pool, pool.url)


def enable_autoscale(core: Core, request: Request, pool_id: str) -> Response:
    """Let a formula choose the pool's size; it is evaluated once, now."""
    body = request.json()
    checks.sizing(body)
    with core.account.changed:
        pool = core.account.pool(pool_id)
        preconditions.check(request, pool)
        _steady(pool)
        text = str(body.get("autoScaleFormula") or pool.spec.get("autoScaleFormula") or "")
        _scale(core, pool, text)
        pool.spec |= {"enableAutoScale": True, "autoScaleFormula": text}
        pool.spec["autoScaleEvaluationInterval"] = (
            body.get("autoScaleEvaluationInterval") or "PT15M"
        )
        core.fleet.resize(pool)
        return done(200, pool, pool.url)


def disable_autoscale(core: Core, _: Request, pool_id: str) -> Response:
    """Leave the pool at its size."""
    with core.account.changed:
        pool = core.account.pool(pool_id)
        pool.spec["enableAutoScale"] = False
        pool.spec.pop("autoScaleFormula", None)
        pool.touch(core.clock.now())
        return done(200, pool, pool.url)


def _steady(pool: Pool) -> None:
    """One change at a time: see remove_nodes, enable_pool_auto_scale and begin_resize_pool in
    azure-batch."""
    if pool.allocation_state != "steady":
        raise ServiceError(409, "PoolBeingResized")


def _scale(core: Core, pool: Pool, text: str) -> None:
    try:
        result = evaluate(text, core.account, pool, core.clock.time())
    except FormulaError as error:
        raise invalid_property("autoScaleFormula", text, str(error)) from None
    pool.target_dedicated, pool.target_spot = result["dedicated"], result["spot"]


def remove_nodes(core: Core, request: Request, pool_id: str) -> Response:
    """Take nodes out of a pool."""
    body = request.json()
    checks.one_of(body, "nodeDeallocationOption", _OPTIONS)
    checks.sizing(body)
    names = checks.required(body, "nodeList")
    if len(names) > _MOST_REMOVED:
        raise invalid_property("nodeList", len(names), f"at most {_MOST_REMOVED} nodes")
    with core.account.changed:
        pool = core.account.pool(pool_id)
        preconditions.check(request, pool)
        _steady(pool)
        missing = [name for name in names if name not in pool.nodes]
        if missing:
            raise not_found("Node")
        pool.allocate("resizing", core.clock.now())
        option = str(body.get("nodeDeallocationOption") or "requeue").lower()
        for name in names:
            node = pool.nodes[name]
            pool.target_dedicated -= node.dedicated
            pool.target_spot -= not node.dedicated
            core.fleet.remove(node, option)
        core.fleet.settle(pool)
        return done(202, pool, pool.url)


_COUNTED = {
    "creating": "creating",
    "idle": "idle",
    "offline": "offline",
    "preempted": "preempted",
    "rebooting": "rebooting",
    "reimaging": "reimaging",
    "running": "running",
    "starting": "starting",
    "starttaskfailed": "startTaskFailed",
    "leavingpool": "leavingPool",
    "unknown": "unknown",
    "unusable": "unusable",
    "waitingforstarttask": "waitingForStartTask",
    "deallocated": "deallocated",
    "deallocating": "deallocating",
    "upgradingos": "upgradingOS",
}


def node_counts(core: Core, request: Request) -> Response:
    """Count the nodes of each pool by state."""
    with core.account.changed:
        entries = []
        for number, pool in enumerate(core.account.pools.values(), start=1):
            entry: dict[str, Any] = {"poolId": pool.id}
            for name, dedicated in (("dedicated", True), ("lowPriority", False)):
                members = pool.members(dedicated=dedicated)
                counts = dict.fromkeys(_COUNTED.values(), 0) | {"total": len(members)}
                for node in members:
                    counts[_COUNTED[node.state]] += 1
                entry[name] = counts
            entries.append((number, entry.copy))
        return answer(page(request, core.account.url, entries))


OPERATIONS: list[Operation] = [
    ("POST", "/pools", create),
    ("GET", "/pools", list_all),
    ("GET", "/pools/{poolId}", get),
    ("HEAD", "/pools/{poolId}", exists),
    ("PATCH", "/pools/{poolId}", update),
    ("DELETE", "/pools/{poolId}", delete),
    ("POST", "/pools/{poolId}/resize", resize),
    ("POST", "/pools/{poolId}/stopresize", stop_resize),
    ("POST", "/pools/{poolId}/enableautoscale", enable_autoscale),
    ("POST", "/pools/{poolId}/disableautoscale", disable_autoscale),
    ("POST", "/pools/{poolId}/removenodes", remove_nodes),
    ("GET", "/nodecounts", node_counts),
]
