"""`fairway list`: the runs of this project."""

from __future__ import annotations

import json
import sys
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from fairway_cli.commands import arguments
from fairway_cli.ending import warn
from fairway_core.findings import Finding, Severity
from fairway_runner.quantities import parse_moment

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fairway_runner.runs.query import Column
    from fairway_runner.runs.store import RunStore


def list_(
    state: arguments.StateOption = None,
    name: Annotated[str | None, Option(help="Only runs of this job.")] = None,
    target: Annotated[
        str | None,
        Option(
            "--target",
            "-t",
            help="Only runs on this target.",
            autocompletion=arguments.complete_targets,
        ),
    ] = None,
    tag: Annotated[
        list[str] | None,
        Option(
            metavar="TAG",
            help="Only runs with this tag. Repeatable: with all of them.",
            autocompletion=arguments.complete_tags,
        ),
    ] = None,
    since: Annotated[
        str | None,
        Option(metavar="WHEN", help="Only runs submitted since then: 2d, or 2026-11-01."),
    ] = None,
    text: Annotated[
        str, Option(help="Only runs with this in their ID, tags, note or job file.")
    ] = "",
    columns: Annotated[
        str,
        Option(
            metavar="NAMES",
            help="More columns, such as metric:accuracy,param:lr,note.",
            autocompletion=arguments.complete_columns,
        ),
    ] = "",
    sort: Annotated[
        str | None,
        Option(
            metavar="COLUMN",
            help="Sort by a column, such as time or metric:accuracy; the highest is last.",
            autocompletion=arguments.complete_columns,
        ),
    ] = None,
    reverse: Annotated[bool, Option("--reverse", help="With --sort: reverse the order.")] = False,
    limit: Annotated[
        int | None, Option("--limit", "-n", min=1, help="Show only the last N runs of the list.")
    ] = None,
    watch: Annotated[
        bool, Option("--watch", help="Keep refreshing the list until all of them have ended.")
    ] = False,
    json_: arguments.JsonOption = False,
) -> None:
    """List the runs of this project, the newest last.

    With --target it also lists runs that were submitted to it from elsewhere. A metric is the
    last value that the run printed; for a sweep, the lowest and the highest of its tasks.
    """
    from fairway_runner.engines.outage import brief
    from fairway_runner.runs.query import Column, RunFilter, list_facts, select
    from fairway_runner.runs.store import refresh_all

    store, remote = arguments.run_store(), arguments.remote_store()
    first = None if since is None else parse_moment("--since", since)
    wanted = RunFilter(arguments.states(state), name, target, tag or (), first, text)
    shown = Column.listed(columns)
    if not shown and not json_ and set(wanted.states) == {"queued"}:
        shown = [Column.of("reason")]  # the reason for waiting
    order = None if sort is None else Column.of(sort)
    logs = any(each.is_metric for each in (*shown, *filter(None, [order])))
    found_there, away = (
        _adopt(target, store) if target is not None and remote is None else ((), False)
    )
    refresh = partial(refresh_all, logs=logs, patience=brief()) if watch or not away else None

    def look() -> tuple[list[dict[str, Any]], list[Finding]]:
        if remote is not None:
            facts, wrong = remote.listed(wanted, shown, limit, order, descending=reverse)
        else:
            found = select(store, wanted, limit, order, descending=reverse, refresh=refresh)
            wrong = found.findings
            facts = [list_facts(each, shown, wrong) for each in found.runs]
        return facts, [*wrong, *_empty(facts, shown)]

    if watch:
        from fairway_cli.ui.progress import watch_until_ended

        draws, pause = sys.stdout.isatty() and not json_, 0.25 if remote is None else 2.0
        watch_until_ended(lambda: look()[0], draws=draws, pause=pause)
    runs, findings = look()
    warn(*found_there, *findings)
    if json_:
        print(json.dumps(runs, indent=1))
    elif not runs:
        how = store.elsewhere() or "start one with: fairway submit JOB"
        where = f" in {store.base.parent}" if remote is None else ""
        some = f"no runs yet{where}; {how}"
        print("no run to show" if findings or wanted != RunFilter() else some)
    elif not watch or not sys.stdout.isatty():
        from fairway_cli.ui.runs import run_table

        print(run_table(runs))


def _empty(runs: Sequence[dict[str, Any]], columns: Sequence[Column]) -> Iterator[Finding]:
    """Yields a warning about each column without any value, which a table leaves out."""
    for column in columns:
        if runs and column.is_named and all(run["columns"][column.title] is None for run in runs):
            message = f"none of these runs has `{column.title}`"
            hint = "is it spelt as in the jobs? see what one has: fairway show RUN"
            yield Finding("empty-column", message, hint, severity=Severity.WARNING)


def _adopt(target: str, store: RunStore) -> tuple[Sequence[Finding], bool]:
    """Creates folders here for the runs on a target. A target that no file names exists only
    through its runs, and is a typing error without any.

    Returns findings about unreadable runs, or about a target that is away, and True in that case.
    """
    from fairway_runner.engines.capabilities import runs_here
    from fairway_runner.engines.engine import engine_for
    from fairway_runner.engines.outage import TargetUnavailable, brief
    from fairway_runner.runs.query import RunFilter, select
    from fairway_runner.targets.lookup import all_targets, find_target

    known = all_targets().get(target)
    if known is None and not select(store, RunFilter(target=target), 1).runs:
        find_target(target)  # raises an error with a suggestion if there is none
    if known is None or runs_here(known.target.engine):
        return (), False
    try:
        return engine_for(known.target, brief()).adopt(store), False
    except TargetUnavailable as error:
        return error.findings, True
