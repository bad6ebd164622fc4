"""Pages, rendered on the server from the facts that commands print."""

from __future__ import annotations

import shutil
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlencode

from markupsafe import Markup
from starlette.datastructures import QueryParams
from starlette.responses import HTMLResponse, RedirectResponse, Response

from fairway_core.environment.selection import known_environments
from fairway_core.findings import UserError, each_of, excerpt
from fairway_runner.runs.log_lines import names_ranks
from fairway_runner.runs.records import has_steps
from fairway_runner.runs.report.charts import overlay
from fairway_runner.runs.report.data import compare
from fairway_runner.runs.report.page import html_templates, sections
from fairway_runner.runs.usage import BY
from fairway_runner.runs.view import action_facts
from fairway_runner.targets.lookup import find_target
from fairway_web import actions, logs, runs
from fairway_web.actions import cancel_run, may_steer, retry_run
from fairway_web.roles import is_allowed, request_context, route
from fairway_web.runs import RunQuery
from fairway_web.threads import acting, checking, reading, site_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jinja2 import Environment
    from starlette.requests import Request

    from fairway_runner.runs.store import Run

_ASKED = {
    "cancel": ("Cancel runs", "Cancel these runs? Their programs will be stopped."),
    "retry": ("Retry runs", "Run the tasks that did not succeed again?"),
}
_MOST_LOGS = 2000  # tasks in the selection; others are reachable by their address


@cache
def _templates() -> Environment:
    environment = html_templates("fairway_web", "templates")
    environment.globals["may"] = is_allowed
    environment.filters["excerpt"] = lambda location: "\n".join(excerpt(location))
    return environment


def page(name: str, status: int = 200, /, **facts: Any) -> HTMLResponse:
    """Renders a page, without buttons for actions that the caller may not perform."""
    text = _templates().get_template(name).render(**facts, person=request_context().person)
    return HTMLResponse(text, status)


def fragment(name: str, /, **facts: Any) -> HTMLResponse:
    """Renders the changing part of a page: its block `fragment`."""
    return HTMLResponse(_part(name, facts))


def _part(name: str, facts: Mapping[str, Any]) -> Markup:
    template = _templates().get_template(name)
    context = template.new_context({**facts, "person": request_context().person})
    return Markup("".join(template.blocks["fragment"](context)))  # noqa: S704 - it escapes


def problem_page(error: UserError, status: int) -> HTMLResponse:
    title = "Not found" if status == 404 else "That cannot be done"
    return page("problem.html.j2", status, title=title, findings=error.findings)


async def form_of(request: Request) -> dict[str, list[str]]:
    """Returns the values of a form, with this machine's line ends in texts."""
    found = parse_qs((await request.body()).decode("utf-8", "replace"), keep_blank_values=True)
    return {name: [each.replace("\r\n", "\n") for each in values] for name, values in found.items()}


async def list_page(request: Request) -> Response:
    """Renders the runs; with `fragment` only the part that changes while somebody looks."""
    site, asked = site_of(request), request.query_params
    site.refresher.watch()
    given = [(name, text) for name, text in asked.multi_items() if text and name != "fragment"]
    query = QueryParams(given)
    found = await reading(runs.page_of, site.runs, RunQuery.of(query))
    followed = site.follower.findings if site.follower is not None else ()
    return (fragment if asked.get("fragment") else page)(
        "runs.html.j2",
        title="Runs",
        page=found,
        query=query,
        states=runs.STATES,
        findings=[*site.refresher.findings, *followed, *found.findings],
        here="/?" + urlencode([*given, ("fragment", "1")]),
    )


async def run_page(request: Request) -> Response:
    site = site_of(request)
    run = site.runs.find(request.path_params["run"])
    site.refresher.watch(run.id)
    task = request.query_params.get("task", "0")
    facts = await reading(_run_facts, run, task, request.query_params.get("rank", ""))
    return page("run.html.j2", title=f"{run.id} · {facts['task']}", **facts)


async def run_sections(request: Request) -> Response:
    """Renders the changing part of a run's page; a header says if it still changes."""
    site = site_of(request)
    run = site.runs.find(request.path_params["run"])
    site.refresher.watch(run.id)
    is_final = run.status.is_final  # read first: the sections then show at least that state
    answer = HTMLResponse(await reading(_sections, run))
    answer.headers["Fairway-Final"] = "yes" if is_final else "no"
    return answer


async def compare_page(request: Request) -> Response:
    found, left_out = runs.compared(site_of(request).runs, request.query_params.getlist("run"))
    records, curves = await reading(lambda: (compare(found), overlay(found)))
    return page(
        "compare.html.j2",
        title="Compare",
        runs=len(found),
        left_out=left_out,
        records=records,
        curves=curves,
        names=list(dict.fromkeys(name for each in records for name in each["differs"])),
        metrics=list(dict.fromkeys(name for each in records for name in each["metrics"])),
    )


async def act_on_runs(request: Request) -> Response:
    """Cancels or retries runs, after a confirmation."""
    site, form = site_of(request), await form_of(request)
    action = form.get("action", [""])[0]
    names = list(dict.fromkeys(form.get("run", [])))
    if action not in _ASKED or not names:
        raise UserError.of("bad-value", "no run was selected", "go back, and tick some")
    found = [site.runs.find(name) for name in names]
    if form.get("confirmed") != ["yes"]:
        title, question = _ASKED[action]
        return page("confirm.html.j2", title=title, question=question, action=action, runs=names)
    await acting(each_of, found, cancel_run if action == "cancel" else retry_run)
    site.refresher.watch()
    return RedirectResponse(f"/runs/{names[0]}" if len(names) == 1 else "/", 303)


def _sections(run: Run) -> Markup:
    """Returns the sections of a run's report, or why there are none: the rest of the page stays."""
    try:
        return sections(run)
    except UserError as error:
        return _part("problem.html.j2", {"title": run.id, "findings": error.findings})


def _run_facts(run: Run, task: str, rank: str) -> dict[str, Any]:
    # The state is read first, so that following from here misses nothing.
    is_final = run.status.is_final
    log = logs.Logs.of(run, task, rank).parts(ended=is_final)
    count = run.record.tasks
    names = [run.task_name(index) for index in range(min(count, _MOST_LOGS))]
    if (run.folder / "setup.jsonl").exists():
        names.insert(0, "setup")
    if 1 < count <= logs.MOST_LOGS:
        names.append(logs.ALL)
    kept, more_kept = runs.outputs(run)
    try:
        script = runs.script(run, task)
    except (UserError, OSError):
        script = ""  # the rest of the page is readable without it
    return {
        "is_final": is_final,
        "may_steer": may_steer(run),
        "again": not has_steps(run.folder),
        "script": script,
        "facts": {"run_id": run.id, "state": run.state, **action_facts(run)},
        "sections": _sections(run),
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


async def targets_page(request: Request) -> Response:
    return page("targets.html.j2", title="Targets", targets=await reading(actions.list_targets))


async def target_page(request: Request) -> Response:
    name = request.path_params["target"]
    target = await reading(find_target, name)
    facts = await acting(actions.page_facts, target, site_of(request).runs)
    draw = fragment if request.query_params.get("fragment") else page
    return draw("target.html.j2", title=name, name=name, **facts)


async def act_on_nodes(request: Request) -> Response:
    form = await form_of(request)
    target = await reading(find_target, request.path_params["target"])
    nodes = list(dict.fromkeys(form.get("node", [])))
    if not nodes:
        raise UserError.of("bad-value", "no node was selected", "go back, and tick some")
    await acting(actions.act_on_nodes, target, form.get("action", [""])[0], nodes)
    return RedirectResponse(request.url.path, 303)


async def environments_page(request: Request) -> Response:
    known = await reading(known_environments)
    return page("environments.html.j2", title="Environments", environments=known)


async def environment_page(request: Request) -> Response:
    name = request.path_params["name"]
    file = actions.environment_file(name)
    found = await checking(actions.checked, file)
    cost, failed = None, None
    try:
        cost = await checking(actions.cost, file)
    except UserError as error:
        failed = str(error)
    can_draw = shutil.which("dot") is not None
    facts = {"name": name, "file": file, "findings": found, "cost": cost, "failed": failed}
    return page("environment.html.j2", title=name, can_draw=can_draw, **facts)


async def cost_page(request: Request) -> Response:
    site = site_of(request)
    query = {name: value for name, value in request.query_params.items() if value}
    by, since = query.get("by", "name"), query.get("since", "")
    site.refresher.watch()
    facts = await reading(actions.run_costs, site.runs, by, since)
    return page("cost.html.j2", title="Cost", query=query, kinds=("run", *BY), **facts)


async def report_style(request: Request) -> Response:
    """Returns the style sheet of a run's report, which its page here has too."""
    file = resources.files("fairway_runner.runs.report") / "page.css"
    return Response(file.read_text("utf-8"), media_type="text/css")


PAGES = [
    route("look", "/static/report.css", report_style),
    route("look", "/", list_page),
    route("steer", "/runs", act_on_runs, "POST"),
    route("look", "/runs/{run}", run_page),
    route("look", "/runs/{run}/sections", run_sections),
    route("look", "/compare", compare_page),
    route("look", "/targets", targets_page),
    route("look", "/targets/{target}", target_page),
    route("nodes", "/targets/{target}", act_on_nodes, "POST"),
    route("look", "/environments", environments_page),
    route("look", "/environments/{name}", environment_page),
    route("look", "/cost", cost_page),
]
