"""What the runs of the project have cost so far, as `fairway cost --runs` says it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from fairway_core.cost.cache import prices_at_hand
from fairway_core.findings import UserError, finding_facts
from fairway_core.suggestions import did_you_mean
from fairway_runner.quantities import moment
from fairway_runner.runs.accounting import BY, grouped, run_cost_facts, total, uses
from fairway_runner.runs.query import Wanted, select
from fairway_web.acting import reading
from fairway_web.html import page

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.requests import Request

    from fairway_web.project import Refresher, Runs


class Costs:
    """The handlers, over the runs of one project."""

    def __init__(self, runs: Runs, refresher: Refresher) -> None:
        self._runs = runs
        self._refresher = refresher

    def routes(self) -> list[Route]:
        """What is shown."""
        return [Route("/cost", self.page)]

    def rest_routes(self) -> list[Route]:
        """What is answered below `/api/v1`."""
        return [Route("/cost", self.answer)]

    async def answer(self, request: Request) -> Response:
        """What `fairway cost --runs --json` prints, of the runs that are known here."""
        return JSONResponse(await self._facts(request.query_params))

    async def page(self, request: Request) -> Response:
        """The same as a table."""
        query = {name: value for name, value in request.query_params.items() if value}
        facts = await self._facts({"by": "name", **query})
        return page("cost.html.j2", title="Cost", query=query, kinds=("run", *BY), **facts)

    async def _facts(self, query: Mapping[str, str]) -> dict[str, Any]:
        self._refresher.watch()
        return await reading(self._read, query)

    def _read(self, query: Mapping[str, str]) -> dict[str, Any]:
        by, since = query.get("by") or "run", query.get("since") or ""
        if by not in ("run", *BY):
            hint = did_you_mean(by, BY) or f"one of: run, {', '.join(BY)}"
            raise UserError.of("bad-value", f"by: runs cannot be grouped by `{by}`", hint)
        listing = select(self._runs, Wanted(since=moment("since", since) if since else None))
        prices = prices_at_hand()
        found = uses([run for run, _ in listing.runs], prices, None)
        kind = None if by == "run" else by
        facts = run_cost_facts(
            grouped(found, kind), total(found), by=kind, currency=prices.currency
        )
        return {**facts, "findings": [finding_facts(each) for each in listing.findings]}
