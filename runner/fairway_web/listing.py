"""Which runs a page or a request asks for: filters from the address, a page of them at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from fairway_core.findings import UserError
from fairway_runner.runs.facts import run_facts
from fairway_runner.runs.query import Wanted, select

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from starlette.requests import Request

    from fairway_core.findings import Finding
    from fairway_runner.runs.store import Run, RunStore
    from fairway_web.project import Runs

STATES = ("queued", "running", "succeeded", "failed", "cancelled", "lost")
MOST = 100  # runs of one page
MOST_COMPARED = 200
_FILTERS = ("state", "name", "target", "tag", "text")


@dataclass(frozen=True)
class Page:
    """Some runs as `list --json` prints them, the newest first; the query of those before them,
    "" where there are none; and what is wrong with runs that cannot be read."""

    runs: Sequence[dict[str, Any]]
    older: str
    findings: Sequence[Finding]


def listed(store: RunStore, query: Mapping[str, str], most: int = MOST) -> Page:
    """The runs that a query asks for; UserError for a value that cannot be."""
    wanted, limit = _wanted(query), _limit(query, most)
    # One more than is shown tells whether there are others.
    found = select(store, wanted, limit + 1)
    chosen = found.runs[-limit:]
    older = ""
    if len(found.runs) > limit:
        kept = {name: query[name] for name in (*_FILTERS, "limit") if query.get(name)}
        # Of those that were submitted at one moment some may be on the next page.
        last = chosen[0][0]
        older = urlencode({**kept, "before": repr(last.record.created), "behind": last.id})
    return Page([run_facts(*each) for each in reversed(chosen)], older, found.findings)


def compared(runs: Runs, request: Request) -> tuple[list[Run], int]:
    """The runs that an address names, each once, and how many it names beyond MOST_COMPARED;
    UserError for one that there is not."""
    asked = list(dict.fromkeys(request.query_params.getlist("run")))
    return [runs.find(name) for name in asked[:MOST_COMPARED]], len(asked[MOST_COMPARED:])


def _wanted(query: Mapping[str, str]) -> Wanted:
    state = query.get("state", "")
    if state and state not in STATES:
        raise UserError.of("bad-value", f"no run is ever `{state}`", f"one of: {', '.join(STATES)}")
    tags = [query["tag"]] if query.get("tag") else []
    return Wanted(
        states=[state] if state else (),
        name=query.get("name") or None,
        target=query.get("target") or None,
        tags=tags,
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
        raise UserError.of("bad-value", "`before` is not a moment", hint) from None


def _limit(query: Mapping[str, str], most: int) -> int:
    text = query.get("limit", "") or str(most)
    if text.isdecimal() and text.isascii() and 0 < int(text[:9]) <= most:
        return int(text)
    raise UserError.of("bad-value", "`limit` is not a number of runs", f"1 to {most}")
