"""What a run may cost, and at which price of a node: known before it starts, so that nothing beside
it has to ask."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from fairway_core.findings import Finding, UserError

if TYPE_CHECKING:
    from fairway_agent.plan import Budget
    from fairway_core.cost.prices import Prices
    from fairway_core.target import Target
    from fairway_runner.jobs.job import Job


def budget_of(job: Job, target: Target) -> Budget | None:
    """The limit that a job sets to its cost on a target; UserError where no price is known."""
    if job.max_cost is None:
        return None
    from fairway_agent.plan import Budget
    from fairway_core.cost.cache import prices_at_hand

    instead = "limit the time: -s max_cost=null -s max_duration=SPAN"
    hourly = hourly_price(target, "max_cost", instead)
    return Budget(job.max_cost, prices_at_hand().currency, hourly)


def hourly_price(target: Target, path: str, instead: str) -> float:
    """What a node of the target costs an hour, as it is known here or as Azure says it.

    UserError at the field `path` where nobody knows it, with what to write `instead`.
    """
    from fairway_core.cost.cache import prices_at_hand
    from fairway_core.cost.node_price import price_of

    hourly = price_of(target, prices_at_hand()) or _asked(target)
    if hourly is None:
        raise _unknown(target, path, instead)
    return hourly


def _asked(target: Target) -> float | None:
    """What Azure's price service says; None where it does not answer either."""
    from fairway_core.cost.cache import CachedPrices
    from fairway_core.cost.node_price import price_of
    from fairway_core.cost.service import PriceService

    if not target.vm_size or not target.region:
        return None
    prices: Prices = CachedPrices(PriceService())
    with suppress(UserError):
        return price_of(target, prices)
    return None


def _unknown(target: Target, path: str, instead: str) -> UserError:
    message = f"`{path}`: the price of a node of `{target.name}` is not known"
    hint = "give the target its price per node hour in fairway.yaml, for example price: 12.5"
    if target.environment and not target.region:
        hint = "read the targets again, with their region: fairway targets sync"
    elif target.environment:
        hint = f"Azure's price service has no price for it; {instead}"
    return UserError([Finding("no-price", message, hint, path)])
