"""`fairway compare`: runs side by side."""

from __future__ import annotations

import json
import sys
from typing import Annotated

from typer import Option

from fairway_cli.commands.arguments import DeadlineOption, JsonOption, RunsArgument


def command(
    runs: RunsArgument,
    csv: Annotated[bool, Option("--csv", help="Print comma-separated values.")] = False,
    json_: JsonOption = False,
    _deadline: DeadlineOption = None,
) -> None:
    """Compare runs side by side: their settings and their results.

    A line for each task: the parameters and fields of the job that are not the same in all of
    them, the last, lowest and highest value of each metric, the time it took, and the commit,
    with a + where files differed from it.
    """
    from fairway_core.findings import UserError, format_finding
    from fairway_runner.runs.compare import compare
    from fairway_runner.runs.store import RunStore, refresh_all

    if csv and json_:
        raise UserError.of("bad-value", "--csv and --json cannot be combined", "give one of them")
    store = RunStore.here()
    found = [store.find(run) for run in runs]
    for finding in refresh_all(found, logs=True):
        print(format_finding(finding), file=sys.stderr)
    records = compare(found)
    if json_:
        print(json.dumps(records, indent=1))
        return
    from fairway_cli.ui.runs import comparison_table, write_csv

    if csv:
        write_csv(records)
    else:
        print(comparison_table(records))
