"""What runs have held that this project did not submit: other machines of its people have their own
projects, and other people their own accounts on the cluster."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fairway_core.findings import Finding, Severity, UserError
from fairway_runner.engines.capabilities import runs_here
from fairway_runner.engines.engine import engine_for

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fairway_core.target import Target
    from fairway_runner.engines.engine import Account
    from fairway_runner.runs.store import RunStore

_YEAR = 365 * 86_400.0  # seconds


@dataclass
class Elsewhere:
    """Accounts of runs of which there is no folder here, each with its target, and what is said of
    targets that do not tell. `since` is the moment from which on these were asked for where
    nobody has named one."""

    accounts: list[tuple[Target, Account]] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    since: float | None = None


def look(store: RunStore, targets: Iterable[Target], since: float | None) -> Elsewhere:
    """Makes a folder for each run on these targets that can be read from here, and asks for the
    accounts of the others; without `since` those of a year, as a database of many may take minutes
    for all of its history."""
    found = Elsewhere()
    first = time.time() - _YEAR if since is None else since
    for target in targets:
        if runs_here(target.engine):
            continue
        try:
            engine = engine_for(target)
            found.findings += engine.adopt(store)
            told = engine.accounts(first)
        except UserError as error:
            found.findings += error.findings
            continue
        if told.found and since is None:
            found.since = first
        found.accounts += [(target, account) for account in told.found]
        if told.lacking:
            message = f"`{target.name}` has no accounting: {told.lacking}"
            hint = "other people's runs there are not counted"
            found.findings.append(Finding("no-accounts", message, hint, severity=Severity.WARNING))
    known = {run.id for run in store.unsorted()}
    # Two targets may be of the same nodes, of which each tells all.
    once = {account.run: (target, account) for target, account in reversed(found.accounts)}
    found.accounts = [each for run, each in reversed(once.items()) if run not in known]
    return found
