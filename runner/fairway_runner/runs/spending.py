"""What a project's runs and those of others have held, looked up where it is known."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fairway_runner.runs.accounting import environment_of, uses, uses_elsewhere
from fairway_runner.runs.elsewhere import look
from fairway_runner.runs.query import Wanted, select
from fairway_runner.runs.refresh import refresh_all

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fairway_core.cost.prices import Prices
    from fairway_core.findings import Finding
    from fairway_core.target import Target
    from fairway_runner.runs.accounting import Use
    from fairway_runner.runs.store import RunStore


@dataclass
class Spending:
    """What each run has held. `unanswered` is what targets do not tell, `damaged` what is wrong
    with runs that cannot be read; `others_since` is the moment from which on runs of other people
    were asked for where nobody has named one."""

    uses: list[Use]
    unanswered: list[Finding] = field(default_factory=list)
    damaged: list[Finding] = field(default_factory=list)
    others_since: float | None = None


def spending(
    store: RunStore,
    prices: Prices,
    *,
    ask: Iterable[Target] | None,
    environment: str | None = None,
    since: float | None = None,
    region: str | None = None,
) -> Spending:
    """What runs submitted `since` have held, on targets of an environment or on any.

    The targets to `ask` say what other machines and other people have submitted to them; those of
    another environment are left out. With None nobody is asked, and runs count as last seen.
    """
    found = Spending([])
    if ask is not None:
        asked = [each for each in ask if environment in (None, each.environment)]
        found = _others(store, prices, asked, since, region)
        found.unanswered += refresh_all(store.unsorted())
    listing = select(store, Wanted(since=since))
    found.damaged = listing.findings
    runs = [run for run, _ in listing.runs]
    if environment is not None:
        runs = [run for run in runs if environment_of(run) == environment]
    found.uses = uses(runs, prices, region) + found.uses
    return found


def _others(
    store: RunStore,
    prices: Prices,
    targets: Iterable[Target],
    since: float | None,
    region: str | None,
) -> Spending:
    """What other people's runs have held; those of other machines get a folder here."""
    seen = look(store, targets, since)
    held = [
        use
        for use in uses_elsewhere(seen.accounts, prices, region)
        if since is None or use.run.record.created >= since
    ]
    return Spending(held, unanswered=seen.findings, others_since=seen.since)
