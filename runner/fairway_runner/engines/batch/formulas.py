"""What the formula of a pool comes to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fairway_core.findings import UserError
from fairway_runner.engines.azure.calls import ServiceError
from fairway_runner.engines.batch.states import seconds
from fairway_runner.engines.service_pools import Evaluated, Formula

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fairway_runner.engines.batch.client import Account


def evaluate(account: Account, formula: str | None) -> Formula:
    """See `ServicePool.evaluate`: Batch evaluates for a pool that goes by a formula, and by that or
    another one."""
    pool = account.pool_facts()
    text = str(pool.get("autoScaleFormula") or "") if formula is None else formula
    if not pool.get("enableAutoScale"):
        message = f"the pool `{account.pool}` has no autoscale formula"
        hint = "give the cluster `nodes: {min: 0, max: 8}` in the environment file, and deploy it"
        raise UserError.of("no-formula", message, hint)
    try:
        now = _evaluated(account.evaluate(text))
    except ServiceError as error:
        if error.status != 400:
            raise
        now = Evaluated({}, None, str(error))  # it is none at all
    last = pool.get("autoScaleRun")
    return Formula(text, now, _evaluated(last) if last else None)


def _evaluated(run: Mapping[str, Any]) -> Evaluated:
    return Evaluated(
        _variables(str(run.get("results") or "")),
        seconds(run.get("timestamp")),
        _words(run.get("error") or {}),
    )


def _variables(results: str) -> dict[str, str]:
    """Of `$variable=value`, separated by semicolons.

    >>> _variables("$TargetDedicatedNodes=2;$NodeDeallocationOption=requeue;pending=2")
    {'$TargetDedicatedNodes': '2', '$NodeDeallocationOption': 'requeue', 'pending': '2'}
    """
    pairs = (part.strip().partition("=") for part in results.split(";"))
    return {name.strip(): value.strip() for name, sign, value in pairs if sign}


def _words(error: Mapping[str, Any]) -> str:
    details = [f"{each.get('name')} {each.get('value')}" for each in error.get("values") or ()]
    said = str(error.get("message") or error.get("code") or "")
    return ": ".join(part for part in (said, ", ".join(details)) if part)
