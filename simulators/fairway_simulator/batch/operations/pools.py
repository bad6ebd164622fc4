"""Operations on pools."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fairway_simulator.batch.model.pool import Pool
from fairway_simulator.batch.operations import checks
from fairway_simulator.batch.scheduling.formula import FormulaError, evaluate
from fairway_simulator.batch.wire.errors import ServiceError, invalid_property
from fairway_simulator.batch.wire.query import page, select
from fairway_simulator.batch.wire.router import answer, done, entity_answer

if TYPE_CHECKING:
    from fairway_simulator.batch.core import Core
    from fairway_simulator.batch.wire.http import Request, Response
    from fairway_simulator.batch.wire.router import Operation

_OPTIONS = ("requeue", "terminate", "taskcompletion", "retaineddata")


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
        return entity_answer(pool, select(request.query)(pool.wire()))


def resize(core: Core, request: Request, pool_id: str) -> Response:
    """Change a pool's size."""
    body = request.json()
    checks.one_of(body, "nodeDeallocationOption", _OPTIONS)
    checks.sizing(body)
    if body.get("targetDedicatedNodes") is None and body.get("targetLowPriorityNodes") is None:
        raise ServiceError(400, "MissingRequiredProperty", PropertyName="targetDedicatedNodes")
    with core.account.changed:
        pool = core.account.pool(pool_id)
        if pool.spec["enableAutoScale"]:
            raise ServiceError(409, "PoolAutoScaleEnabled")
        _steady(pool)
        pool.target_dedicated = int(body.get("targetDedicatedNodes") or 0)
        pool.target_spot = int(body.get("targetLowPriorityNodes") or 0)
        core.fleet.resize(pool, str(body.get("nodeDeallocationOption") or "requeue").lower())
        return done(202, pool, pool.url)


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


OPERATIONS: list[Operation] = [
    ("GET", "/pools", list_all),
    ("GET", "/pools/{poolId}", get),
    ("POST", "/pools/{poolId}/resize", resize),
]
