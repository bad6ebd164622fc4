"""`fairway list` of a server's runs."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

import typer

from fairway_cli.server.connection import Allowance, found_beside
from fairway_core.findings import format_finding

if TYPE_CHECKING:
    from collections.abc import Callable

    from fairway_cli.server.connection import Answer, Server
    from fairway_core.findings import Finding
    from fairway_runner.runs.query import Column

    Found = tuple[list[dict[str, Any]], list[Finding]]

_PAGE = 100  # runs that a server tells at once
_MOST_PAGES = 10_000
_MOST_BYTES = 256 << 20


def list_command(
    server: Server,
    *,
    state: list[str] | None,
    name: str | None,
    target: str | None,
    tag: list[str] | None,
    since: str | None,
    text: str,
    columns: str,
    sort: str | None,
    reverse: bool,
    limit: int | None,
    watch: bool,
    json_: bool,
) -> None:
    """As `fairway list`; see there."""
    from fairway_cli.commands.arguments import states
    from fairway_runner.runs.query import Column

    shown = [Column.of(each.strip()).title for each in columns.split(",") if each.strip()]
    if not shown and not json_ and set(states(state)) == {"queued"}:
        shown = ["reason"]
    order = None if sort is None else Column.of(sort)
    lists = {"state": states(state), "tag": tag or ()}
    query = [(key, each) for key, some in lists.items() for each in some]
    plain = {"name": name, "target": target, "since": _moment(since), "text": text}
    query += [(key, value) for key, value in plain.items() if value]

    def look() -> Found:
        extra = [order.title] if order is not None and order.title not in shown else []
        wanted = ",".join([*shown, *extra])
        asked = [*query, *([("columns", wanted)] if wanted else []), ("fresh", "true")]
        with server.understood():
            runs, findings = _runs(server, asked, limit if order is None else None)
            if order is not None:
                runs = _ordered(runs, order, descending=reverse)[-limit if limit else None :]
            for run in runs:
                kept = {title: run["columns"][title] for title in shown}
                run.pop("columns", None)
                run |= {"columns": kept} if kept else {}
        return runs, findings

    if watch:
        _watch(server, look, json_=json_)
    _print(server, look(), json_=json_, is_drawn=watch, is_plain=not query)


def _print(server: Server, found: Found, *, json_: bool, is_drawn: bool, is_plain: bool) -> None:
    """The runs, and what is wrong with others; one that was drawn on a terminal stands there."""
    runs, findings = found
    for finding in findings:
        print(format_finding(finding), file=sys.stderr)
    if json_:
        print(json.dumps(runs, indent=1))
    elif not runs:
        some = "no runs yet; start one with: fairway submit JOB"
        print(some if is_plain and not findings else "no run to show")
    elif not is_drawn or not sys.stdout.isatty():
        from fairway_cli.ui.runs import run_table

        with server.understood():
            print(run_table(runs))


def _moment(since: str | None) -> str:
    """The moment as every clock has it: the server may be in another time zone."""
    from fairway_runner.quantities import moment

    if since is None:
        return ""
    return datetime.fromtimestamp(moment("--since", since), UTC).isoformat()


def _runs(server: Server, query: list[tuple[str, str]], limit: int | None) -> Found:
    """The runs that are wanted, the newest last, page by page."""
    found: list[dict[str, Any]] = []
    first = query + ([("limit", str(min(limit, _PAGE)))] if limit else [])
    answer = server.answer("GET", "/runs", first)
    if "findings" not in answer.headers:
        raise server.old("GET /runs with `fresh`")
    findings = found_beside(answer)
    allowance = Allowance(_MOST_PAGES, _MOST_BYTES)
    while True:
        allowance.take(server, len(answer.body))
        page = server.data(answer)
        found += page
        following = _following(answer)
        if not page or not following or (limit and len(found) >= limit):
            break
        answer = server.answer("GET", "/runs", following)
    return found[:limit][::-1], findings


def _following(answer: Answer) -> list[tuple[str, str]]:
    """The query of the next page; empty where there is none. Its place is ours to say."""
    address, _, kind = answer.headers.get("link", "").partition(">")
    if 'rel="next"' not in kind:
        return []
    return parse_qsl(address.partition("?")[2])


def _ordered(
    runs: list[dict[str, Any]], order: Column, *, descending: bool
) -> list[dict[str, Any]]:
    from fairway_runner.runs.query import by_value

    valued = [(run["columns"][order.title], run) for run in runs]
    return by_value(valued, descending=descending)


def _watch(server: Server, look: Callable[[], Found], *, json_: bool) -> None:
    from fairway_cli.ui.progress import until_ended

    try:
        with server.understood():
            until_ended(lambda: look()[0], draws=sys.stdout.isatty() and not json_, pause=2.0)
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
