"""The simulator's own operations, under `/simulator/`: what happens to nodes, faults, the clock.

They are no part of Azure Batch. A request carries the account's key as
`Authorization: Key <key>`.
"""

from __future__ import annotations

import hmac
import re
from typing import TYPE_CHECKING, Any, get_args

from fairway_simulator.batch.faults import Fault, Kind
from fairway_simulator.batch.model.pool import AllocationLimit
from fairway_simulator.batch.operations import checks
from fairway_simulator.batch.wire.errors import ServiceError, invalid_property
from fairway_simulator.batch.wire.router import answer, done

if TYPE_CHECKING:
    from fairway_simulator.batch.core import Core
    from fairway_simulator.batch.wire.http import Request, Response
    from fairway_simulator.batch.wire.router import Operation


def _authorize(core: Core, request: Request) -> None:
    scheme, _, key = request.headers.get("authorization", "").partition(" ")
    if scheme != "Key" or not hmac.compare_digest(key, core.authenticator.key):
        raise ServiceError(401, "Unauthorized", "The request does not carry the account's key.")


def add_fault(core: Core, request: Request) -> Response:
    """Turn a fault on: its fields are those of `Fault`."""
    _authorize(core, request)
    body = request.json()
    checks.one_of(body, "kind", get_args(Kind))
    try:
        core.faults.add(Fault(**body))
    except (TypeError, re.error) as error:
        raise ServiceError(400, "InvalidRequestBody", str(error)) from None
    return done(201)


def clear_faults(core: Core, request: Request) -> Response:
    """Turn all faults off."""
    _authorize(core, request)
    core.faults.clear()
    return done(200)


def statistics(core: Core, request: Request) -> Response:
    """How many requests there were, and how many each fault hit."""
    _authorize(core, request)
    return answer({"requests": core.faults.requests, "hits": core.faults.hits})


def advance(core: Core, request: Request) -> Response:
    """Put the clock forward by `seconds`."""
    _authorize(core, request)
    seconds = checks.required(request.json(), "seconds")
    if not isinstance(seconds, int | float) or seconds < 0:
        raise invalid_property("seconds", seconds, "a clock goes forward only")
    with core.account.changed:
        core.clock.advance(seconds)
        core.account.changed.notify_all()
    return done(200)


def act(core: Core, request: Request, pool_id: str, node_id: str, action: str) -> Response:
    """`preempt` (with `notice` seconds), `lose` or `restore` a node, or make it `unusable`."""
    _authorize(core, request)
    body: dict[str, Any] = request.json() if request.body else {}
    with core.account.changed:
        node = core.account.node(pool_id, node_id)
        if action == "preempt":
            core.fleet.preempt(node, float(body.get("notice") or 0))
        elif action == "lose":
            core.fleet.lose(node, "unknown")
        elif action == "unusable":
            error = {"code": "NodeUnusable", "message": str(body.get("message") or "")}
            core.fleet.lose(node, "unusable", [error])
        elif action == "restore":
            core.fleet.restore(node)
        else:
            raise invalid_property("action", action, "preempt, lose, unusable or restore")
    return done(200)


def limit(core: Core, request: Request, pool_id: str) -> Response:
    """Let a pool have at most `nodes`, with a resize error's `code` and `message`; without
    `nodes` the limit is lifted."""
    _authorize(core, request)
    body = request.json()
    with core.account.changed:
        pool = core.account.pool(pool_id)
        pool.limit = None
        if body.get("nodes") is not None:
            code = str(body.get("code") or "AllocationFailed")
            pool.limit = AllocationLimit(int(body["nodes"]), code, str(body.get("message") or code))
        core.fleet.resize(pool)
        return done(200)


OPERATIONS: list[Operation] = [
    ("POST", "/simulator/faults", add_fault),
    ("DELETE", "/simulator/faults", clear_faults),
    ("GET", "/simulator/statistics", statistics),
    ("POST", "/simulator/clock", advance),
    ("POST", "/simulator/pools/{poolId}/nodes/{nodeId}/{action}", act),
    ("POST", "/simulator/pools/{poolId}/limit", limit),
]
