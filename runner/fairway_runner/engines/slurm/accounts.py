"""What the accounting of a Slurm cluster says of runs, checked before anything relies on it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairway_agent.fields import Unfit
from fairway_core.findings import printable
from fairway_runner.engines.engine import Account, Accounts
from fairway_runner.runs.records import is_run_id

if TYPE_CHECKING:
    from fairway_agent.slurm.reports import AccountsReport

_LATEST = 253_402_300_800.0  # seconds since 1970, the year 10000
_LONGEST = 300  # letters of what sacct says


def accounts_of(report: AccountsReport) -> Accounts:
    """The same of what the login host has told; Unfit where a run has no name that runs have."""
    if report.runs is None:
        return Accounts(lacking=report.why[:_LONGEST] or "it does not say why")
    if not all(map(is_run_id, report.runs)):
        raise Unfit("a run has another name than runs have")
    if any(each.submitted >= _LATEST for each in report.runs.values()):
        raise Unfit("a run was submitted after the year 9999")
    return Accounts(
        [
            Account(run, printable(each.user), each.submitted, each.node_seconds)
            for run, each in report.runs.items()
        ]
    )
