"""Which runs a page or a request asks for: filters from the address, a page of them at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from fairway_core.findings import UserError
from fairway_runner.quantities import moment
from fairway_runner.runs.query import Column, Wanted, select
from fairway_runner.runs.view import run_facts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.datastructures import QueryParams
    from starlette.requests import Request

    from fairway_core.findings import Finding
    from fairway_runner.runs.query import Found
    from fairway_runner.runs.store import Run, RunStore
    from fairway_web.project import Runs

STATES = ("queued", "running", "succeeded", "failed", "cancelled", "lost")
MOST = 100  # runs of one page
MOST_COMPARED = 200
_FILTERS = ("state", "name", "target", "tag", "text", "since", "columns")


@dataclass(frozen=True)
class Page:
    """Some runs as `list --json` prints them, the newest first; the query of those before them,
    "" where there are none; and what is wrong with runs that cannot be read."""

    runs: Sequence[dict[str, Any]]
    older: str
    findings: Sequence[Finding]


def listed(store: RunStore, query: QueryParams, most: int = MOST) -> Page:
    """The runs that a query asks for; UserError for a value that cannot be."""
    wanted, limit = _wanted(query), _limit(query, most)
    columns = columns_of(query)
    # One more than is shown tells whether there are others.
    found = select(store, wanted, limit + 1)
    chosen = found.runs[-limit:]
    older = ""
    if len(found.runs) > limit:
        names = (*_FILTERS, "limit")
        kept = [(name, each) for name in names for each in query.getlist(name) if each]
        # Of those that were submitted at one moment some may be on the next page.
        last = chosen[0][0]
        older = urlencode([*kept, ("before", repr(last.record.created)), ("behind", last.id)])
    return Page([_facts(each, columns) for each in reversed(chosen)], older, found.findings)


def columns_of(query: QueryParams) -> list[Column]:
    """The columns that are wanted beside the facts of a run; UserError for what is none."""
    return [Column.of(each.strip()) for each in query.get("columns", "").split(",") if each.strip()]


def _facts(found: Found, columns: Sequence[Column]) -> dict[str, Any]:
    facts = run_facts(*found)
    if columns:
        facts["columns"] = {column.title: column.value(*found) for column in columns}
    return facts


def compared(runs: Runs, request: Request) -> tuple[list[Run], int]:
    """The runs that an address names, each once, and how many it names beyond MOST_COMPARED;
    UserError for one that there is not."""
    asked = list(dict.fromkeys(request.query_params.getlist("run")))
    return [runs.find(name) for name in asked[:MOST_COMPARED]], len(asked[MOST_COMPARED:])


def _wanted(query: QueryParams) -> Wanted:
    states = [each for each in query.getlist("state") if each]
    for state in states:
        if state in STATES:
            continue
        raise UserError.of("bad-value", f"no run is ever `{state}`", f"one of: {', '.join(STATES)}")
    since = query.get("since", "")
    return Wanted(
        states=states,
        name=query.get("name") or None,
        target=query.get("target") or None,
        tags=[each for each in query.getlist("tag") if each],
        since=moment("since", since) if since else None,
        text=query.get("text", ""),
        before=_before(query.get("before", "")),
        behind=query.get("behind") or None,
    )


def _before(text: str) -> float | None:
    if not text:
        return None
    try:
        return float(text)
    except ValueError:
        hint = "take it from the address of the page before"
        raise UserError.of("bad-value", "`before` is not a time", hint) from None


def _limit(query: QueryParams, most: int) -> int:
    text = query.get("limit", "") or str(most)
    if text.isdecimal() and text.isascii() and 0 < int(text[:9]) <= most:
        return int(text)
    raise UserError.of("bad-value", "`limit` is not a number of runs", f"1 to {most}")
