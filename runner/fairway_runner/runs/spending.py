"""Resources that a project's runs have held, including runs that other machines have submitted."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fairway_core.findings import UserError
from fairway_runner.engines.capabilities import runs_here
from fairway_runner.engines.engine import engine_for
from fairway_runner.runs.accounting import environment_of, uses
from fairway_runner.runs.query import Wanted, select
from fairway_runner.runs.store import refresh_all

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from fairway_core.cost.prices import Prices
    from fairway_core.findings import Finding
    from fairway_core.target import Target
    from fairway_runner.runs.accounting import Use
    from fairway_runner.runs.store import RunStore


@dataclass
class Spending:
    """Resources that each run has held. `unanswered` holds findings on facts that targets do not
    report, `damaged` those on runs that cannot be read."""

    uses: list[Use]
    unanswered: list[Finding] = field(default_factory=list)
    damaged: list[Finding] = field(default_factory=list)


def spending(
    store: RunStore,
    prices: Prices,
    *,
    ask: Iterable[Target] | None = None,
    environment: str | None = None,
    since: float | None = None,
    region: str | None = None,
) -> Spending:
    """Returns what runs submitted `since` have held, on targets of one environment or on any. Runs
    that other machines have submitted to the targets to `ask` get a folder here; targets of another
    environment are left out. With `ask` None no target is asked, and runs count as last seen."""
    unanswered: list[Finding] = []
    if ask is not None:
        asked = [each for each in ask if environment in (None, each.environment)]
        unanswered += [*_adopted(store, asked), *refresh_all(store.unsorted())]
    listing = select(store, Wanted(since=since))
    runs = [run for run, _ in listing.runs]
    if environment is not None:
        runs = [run for run in runs if environment_of(run) == environment]
    return Spending(uses(runs, prices, region), unanswered, listing.findings)


def _adopted(store: RunStore, targets: Iterable[Target]) -> Iterator[Finding]:
    for target in targets:
        if not runs_here(target.engine):
            try:
                yield from engine_for(target).adopt(store)
            except UserError as error:
                yield from error.findings
