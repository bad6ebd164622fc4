"""The pages: made on the server, from what the commands print."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlencode

from starlette.datastructures import QueryParams
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from fairway_core.findings import UserError
from fairway_runner.runs.compare import compare
from fairway_runner.runs.folder import task_name
from fairway_runner.runs.log_lines import names_ranks
from fairway_runner.runs.report.charts import overlay
from fairway_runner.runs.report.page import sections
from fairway_runner.runs.steps import has_steps
from fairway_runner.runs.view import action_facts
from fairway_web import files, logs
from fairway_web.acting import acting, reading
from fairway_web.html import fragment, page
from fairway_web.listing import STATES, compared, listed
from fairway_web.roles import may_steer
from fairway_web.scripts import script
from fairway_web.steering import cancel_run, retry_run

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.requests import Request

    from fairway_runner.runs.report.charts import Overlay
    from fairway_runner.runs.store import Run
    from fairway_web.following import Follower
    from fairway_web.project import Refresher, Runs

_ASKED = {
    "cancel": ("Cancel", "Cancel these runs? Their programs will be stopped."),
    "retry": ("Retry", "Run the tasks that did not succeed again?"),
}
_MOST_LOGS = 2000  # tasks that can be chosen; others by their address


def problem_page(error: UserError, status: int) -> HTMLResponse:
    """What is said of an error, and what to do."""
    title = "Not found" if status == 404 else "That cannot be done"
    return page("problem.html.j2", status, title=title, findings=error.findings)


class Pages:
    """The handlers, over the runs of one project."""

    def __init__(self, runs: Runs, refresher: Refresher, follower: Follower | None = None) -> None:
        self._runs = runs
        self._refresher = refresher
        self._follower = follower

    def routes(self) -> list[Route]:
        """What is shown."""
        return [
            Route("/", self.list),
            Route("/runs", self.act, methods=["POST"]),
            Route("/runs/{run}", self.show),
            Route("/runs/{run}/sections", self.sections),
            Route("/compare", self.compare),
        ]

    async def list(self, request: Request) -> Response:
        """The runs; with `fragment` only what changes while somebody looks."""
        self._refresher.watch()
        is_fragment = bool(request.query_params.get("fragment"))
        given = request.query_params.items()
        query = {name: value for name, value in given if value and name != "fragment"}
        found = await reading(listed, self._runs, QueryParams(query))
        followed = self._follower.findings if self._follower is not None else ()
        facts: dict[str, Any] = {
            "title": "Runs",
            "page": found,
            "query": query,
            "states": STATES,
            "findings": [*self._refresher.findings, *followed, *found.findings],
            "here": "/?" + urlencode({**query, "fragment": "1"}),
        }
        return (fragment if is_fragment else page)("runs.html.j2", **facts)

    async def show(self, request: Request) -> Response:
        """One run: what its report says, its log as it grows, its outputs."""
        run = self._runs.find(request.path_params["run"])
        self._refresher.watch(run.id)
        task = request.query_params.get("task", "0")
        rank = request.query_params.get("rank", "")
        facts = await reading(_run_facts, run, task, rank)
        return page("run.html.j2", title=f"{run.id} · {facts['task']}", **facts)

    async def sections(self, request: Request) -> Response:
        """The part of a run's page that changes, and whether it still does."""
        run = self._runs.find(request.path_params["run"])
        self._refresher.watch(run.id)
        is_final = run.status.is_final  # before the sections: they show no less than that
        answer = HTMLResponse(await reading(sections, run))
        answer.headers["Fairway-Final"] = "yes" if is_final else "no"
        return answer

    async def compare(self, request: Request) -> Response:
        """Runs side by side, by parameters, last metrics and curves."""
        runs, left_out = compared(self._runs, request)
        records, curves = await reading(_side_by_side, runs)
        return page(
            "compare.html.j2",
            title="Compare",
            runs=len(runs),
            left_out=left_out,
            records=records,
            curves=curves,
            names=list(dict.fromkeys(name for each in records for name in each["differs"])),
            metrics=list(dict.fromkeys(name for each in records for name in each["metrics"])),
        )

    async def act(self, request: Request) -> Response:
        """What a button does to runs, after it was asked for once more."""
        form = parse_qs((await request.body()).decode("utf-8", "replace"))
        action = form.get("action", [""])[0]
        names = list(dict.fromkeys(form.get("run", [])))
        if action not in _ASKED or not names:
            raise UserError.of("bad-value", "no run was selected", "go back, and tick some")
        runs = [self._runs.find(name) for name in names]
        if form.get("confirmed") != ["yes"]:
            title, question = _ASKED[action]
            return page(
                "confirm.html.j2", title=title, question=question, action=action, runs=names
            )
        await acting(_act, action, runs)
        self._refresher.watch()
        return RedirectResponse(f"/runs/{names[0]}" if len(names) == 1 else "/", 303)


def _act(action: str, runs: Sequence[Run]) -> None:
    """To all of them, also where it cannot be done to one; UserError that says of which."""
    errors: list[UserError] = []
    for run in runs:
        try:
            if action == "cancel":
                cancel_run(run)
            else:
                retry_run(run)
        except UserError as error:
            errors.append(error)
    if errors:
        findings = [finding for error in errors for finding in error.findings]
        raise UserError(findings, exit_code=errors[0].exit_code)


def _side_by_side(runs: Sequence[Run]) -> tuple[list[dict[str, Any]], Overlay]:
    return compare(runs), overlay(runs)


def _run_facts(run: Run, task: str, rank: str) -> dict[str, Any]:
    # The state is read first, so that what is followed from here on misses nothing.
    is_final = run.status.is_final
    asked = logs.Logs.of(run, task, rank)
    log = asked.last_parts(ended=is_final)
    count = run.record.tasks
    names = [task_name(run, index) for index in range(min(count, _MOST_LOGS))]
    if (run.folder / "setup.jsonl").exists():
        names.insert(0, "setup")
    if 1 < count <= logs.MOST_LOGS:
        names.append(logs.ALL)
    kept, more_kept = files.outputs(run)
    return {
        "is_final": is_final,
        "may_steer": may_steer(run),
        "again": not has_steps(run.folder),
        "script": _script(run, task),
        "facts": {"run_id": run.id, "state": run.state, **action_facts(run)},
        "sections": sections(run),
        "log": log,
        "log_query": urlencode({"task": task, **({"rank": rank} if rank else {})}),
        "is_cut": max(log.ends) > logs.MOST // len(log.ends),
        "rank": rank,
        "has_ranks": names_ranks(run),
        "logs": names,
        "listed": min(count, _MOST_LOGS),
        "task": task,
        "tasks": count,
        "outputs": kept,
        "more_outputs": more_kept,
    }


def _script(run: Run, task: str) -> str:
    """Its script, "" where that is missing: the rest of the page can be read all the same."""
    try:
        return script(run, task)
    except (UserError, OSError):
        return ""
