"""REST under `/api/v1`: the JSON that commands print, and the calls behind the buttons of pages.

The docstring of a call describes it in the OpenAPI document and in the table of docs/serve.md.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Coroutine, Mapping
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Literal

from fastapi import APIRouter, Depends, FastAPI, Header, Path, Query, Request
from fastapi.responses import FileResponse, JSONResponse, PlainTextResponse, StreamingResponse
from starlette.convertors import PathConvertor, register_url_convertor
from starlette.responses import Response

import fairway_core
from fairway_core.environment.selection import known_environments
from fairway_core.findings import Finding, UserError, finding_facts
from fairway_core.schema import schema_of
from fairway_core.suggestions import did_you_mean
from fairway_runner.runs.log_lines import LogFile
from fairway_runner.runs.report.data import compare
from fairway_runner.runs.store import Run, refresh_all
from fairway_runner.runs.usage import BY
from fairway_runner.runs.view import RunView, cancel_facts, started_facts
from fairway_runner.targets.lookup import find_target
from fairway_web import actions, logs, runs, schemas, submissions
from fairway_web.code_upload import Uploads
from fairway_web.roles import ROUTES, require
from fairway_web.runs import RunQuery
from fairway_web.submissions import Asked, read_asked
from fairway_web.threads import Site, acting, checking, reading, site_of, submitting

if TYPE_CHECKING:
    from starlette.routing import BaseRoute

    Handler = Callable[[Request, Any], Coroutine[Any, Any, Response]]

Endpoint = Any


class _AnyPath(PathConvertor):
    regex = r"[\s\S]*"  # the name of an output may contain a line break


register_url_convertor("path", _AnyPath())

_REFUSALS = {
    401: "the token is missing or invalid",
    403: "the request came from a page of another site, or the role does not allow it there",
    404: "there is no such run, task, file, target, node or environment",
    409: "the run is in the wrong state",
    413: "the request is too long",
    421: "the server has another name",
    422: "a mistake in the request",
    429: "many requests of this person are answered now",
    502: "a service failed",
    503: "the keys of the sign-in cannot be fetched",
}
CALLS: list[tuple[str, str, Endpoint, dict[str, Any]]] = []
"""Requests in the order of the docs: method, path, function and FastAPI's options."""


def endpoint(
    action: str,
    place: str,
    answer: Any = None,
    *,
    status: int = 200,
    media: tuple[str, ...] = (),
    headers: tuple[str, ...] = (),
    body: dict[str, Any] | None = None,
) -> Callable[[Endpoint], Endpoint]:
    """Returns a decorator that registers a function as the call at a path, such as `GET /runs`, for
    people whose role allows the action. An `answer` in a list is the type of its items."""
    method, path = place.split(" ")
    if isinstance(answer, list):
        answer = list[answer[0]]
    ROUTES[f"{method} /api/v1{path}"] = action

    async def allowed(request: Request) -> None:
        require(action, request.url.path)
        _refuse_unknown(request)
        if method == "POST" and body is None and await request.body() not in (b"", b"{}"):
            hint = "write its values into the address, such as `?task=1`"
            raise UserError.of("bad-request", "this call takes no body", hint)

    good: dict[str, Any] = {}
    if headers:
        good["headers"] = {name: {"schema": _TEXT} for name in headers}
    if media:
        text = {each: _TEXT if each.startswith("text/") else {} for each in media}
        good["content"] = {each: {"schema": schema} for each, schema in text.items()}
    refusals = {
        code: {"description": says, "model": schemas.Findings}
        for code, says in _REFUSALS.items()
        if method != "GET" or code not in (409, 413)  # of requests that change something
    }
    options: dict[str, Any] = {
        "methods": [method],
        "response_model": answer,
        "response_class": Response if media else JSONResponse,
        "status_code": status,
        "responses": {status: good, **refusals},
        "dependencies": [Depends(allowed)],
    }
    if body is not None:
        content = {kind: {"schema": schema} for kind, schema in body.items()}
        options["openapi_extra"] = {"requestBody": {"required": True, "content": content}}

    def register(function: Endpoint) -> Endpoint:
        CALLS.append((method, path, function, options))
        return function

    return register


def _refuse_unknown(request: Request) -> None:
    """Raises UserError for an unknown query parameter: otherwise a misspelt filter would answer
    with everything, and a misspelt task would cancel the run."""
    known = set[str]()
    for each in request.scope["route"].dependant.query_params:
        fields = getattr(each.field_info.annotation, "model_fields", None)
        known |= {each.alias} if fields is None else fields.keys()
    for name in request.query_params.keys() - known:
        message = f"this call has no value `{name[:60]}`"
        raise UserError.of("bad-value", message, did_you_mean(name, known) if known else "")


_TEXT = {"type": "string"}
_JOB = {"application/json": {"$ref": "#/components/schemas/Job"}}
TaskQuery = Annotated[str, Query(description="a task by its number, or `setup` or `finally`")]
Name = Annotated[str, Path(min_length=1)]


async def _found(request: Request, run: Name) -> Run:
    return site_of(request).runs.find(run)


Found = Annotated[Run, Depends(_found)]
"""The run in the path."""


async def _asked(request: Request) -> Asked:
    # Parsed from the bytes: programs such as curl send another content type.
    return read_asked(await request.body())


Job = Annotated[Asked, Depends(_asked)]


def api(site: Site | None, handlers: Mapping[Any, Handler]) -> FastAPI:
    """Returns the calls over one project, with their error handlers."""
    app = FastAPI(
        routes=_routes(),
        title="Fairway",
        version=fairway_core.__version__,
        description="The runs of one project, as `fairway serve` shows them.",
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        servers=[{"url": "/api/v1"}],
        redirect_slashes=False,
        exception_handlers={**handlers},
    )
    app.state.site = site
    return app


@cache
def _routes() -> list[BaseRoute]:
    """Returns the routes of all calls, made once, as that takes a fifth of a second."""
    made = APIRouter(
        generate_unique_id_function=lambda route: re.sub(
            r"_(\w)", lambda found: found[1].upper(), route.name
        )
    )
    for method, path, function, options in CALLS:
        made.add_api_route(path, function, **options)
        if method == "GET":  # HEAD is not documented: it is GET without the body
            also: dict[str, Any] = {"methods": ["HEAD"], "include_in_schema": False}
            made.add_api_route(path, function, **{**options, **also})
    return made.routes


@cache
def document() -> dict[str, Any]:
    """Returns the OpenAPI document."""
    found = api(None, {}).openapi()
    job = schema_of(Asked, title="Job")
    job = {name: part for name, part in job.items() if name not in ("$schema", "$defs")}
    found["components"]["schemas"]["Job"] = job
    found["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    found["security"] = [{"token": []}]
    return found


_UNKNOWN_KINDS = ("run", "task", "output", "target", "node", "rank", "environment", "code", "piece")
_UNKNOWN = frozenset(f"unknown-{kind}" for kind in _UNKNOWN_KINDS)
_WRONG_STATE = frozenset({"running-run", "nothing-to-retry", "taken-run-id"})
_STATUS = {2: 422, 3: 409, 5: 502}


def problem(error: UserError, status: int | None = None) -> JSONResponse:
    """Returns the findings of an error, with that status, or the one for its exit code."""
    codes = {finding.id for finding in error.findings}
    if status is None:
        status = 404 if codes & _UNKNOWN else _STATUS.get(error.exit_code, 422)
        if codes & _WRONG_STATE:
            status = 409
        if "missing-role" in codes:
            status = 403
    facts = [runs.located_facts(each) for each in error.findings]
    return JSONResponse({"findings": facts, "exit_code": error.exit_code}, status)


@endpoint("look", "GET /runs", [schemas.Run], headers=("Link", "Findings"))
async def list_runs(request: Request, query: Annotated[RunQuery, Query()]) -> Response:
    """the runs, newest first; `state`, `target`, `name`, `tag`, `text`, `since`, `columns`,
    `limit`; the header `Link` leads to older runs, `Findings` says what is wrong with others;
    `fresh=true` asks the targets first"""
    site, silent = site_of(request), list[Finding]()
    site.refresher.watch()
    if query.fresh:
        metrics = any(each.is_metric for each in query.shown)
        silent = await acting(lambda: refresh_all(site.runs.unsorted(), logs=metrics))
    found = await reading(runs.page_of, site.runs, query)
    answer = JSONResponse(list(found.runs))
    answer.headers["Findings"] = runs.findings_header([*silent, *found.findings])
    if found.older:
        answer.headers["Link"] = f'</api/v1/runs?{found.older}>; rel="next"'
    return answer


@endpoint("look", "GET /runs/{run}", schemas.RunDetail)
async def show_run(request: Request, found: Found) -> Response:
    """what `fairway show --json` prints"""
    site_of(request).refresher.watch()
    return await reading(lambda: JSONResponse(RunView.of(found).to_json()))


@endpoint("look", "GET /runs/{run}/state", schemas.RunState)
async def state_of_run(request: Request, run: Name, *, fresh: bool = False) -> Response:
    """the state of a run; RUN may be a prefix of its ID; `fresh=true` asks its target first"""
    found = await _looked_at(request, run, fresh=fresh)
    return JSONResponse(await reading(runs.state_facts, found))


@endpoint("look", "GET /runs/{run}/records", schemas.Records)
async def records_of_run(
    request: Request, run: Name, since: int = 0, *, fresh: bool = False, active: bool = False
) -> Response:
    """the records in the folder of a run, for `fairway --server`, written `since` a time; RUN may
    be a prefix of its ID, with `active` of one that has not ended; `fresh=true` asks its target
    first"""
    found = await _looked_at(request, run, fresh=fresh, active=active)
    return JSONResponse(await reading(runs.records, found, since))


async def _looked_at(request: Request, run: str, *, fresh: bool, active: bool = False) -> Run:
    site = site_of(request)
    found = await reading(lambda: site.runs.find_prefix(run, active=active))
    site.refresher.watch(found.id)
    if fresh:
        await acting(lambda: found.refresh(logs=True))
    return found


@endpoint(
    "look",
    "GET /runs/{run}/log",
    media=("text/plain", "text/event-stream"),
    headers=("Next-Offset",),
)
async def read_log(
    request: Request,
    found: Found,
    task: Annotated[str, Query(description="a task, or `all`")] = "0",
    rank: Annotated[str, Query(description="the lines of one rank")] = "",
    start: Annotated[
        str, Query(alias="from", description="where to begin; taken from `Next-Offset`")
    ] = "0",
    last_event_id: Annotated[str, Header(description="the last event that was read")] = "",
    *,
    raw: Annotated[bool, Query(description="each log unchanged, byte by byte")] = False,
) -> Response:
    """the log of `task` (default 0) from the byte `from` on, whole lines of at most 256 KiB
    together; `task=all` reads up to 64 as one, of each also a line of up to 256 KiB, `rank` the
    lines of one rank, `raw=true` the bytes of the file; the header `Next-Offset` says where to
    continue, and equals `from` if there is nothing new yet"""
    watch = site_of(request).refresher.watch
    # For programs: our pages ask again and again, as a browser opens few connections.
    is_live = "text/event-stream" in request.headers.get("accept", "")
    asked = await reading(logs.Logs.of, found, task, rank)
    starts = asked.starts(last_event_id or start)
    watch(found.id)
    if raw:
        if rank or task == logs.ALL or is_live:
            hint = "leave `rank` out, and name a task"
            raise UserError.of("bad-value", "`raw` is for one whole log", hint)
        log = LogFile(*asked.files[0], starts[0])
        data = await reading(log.read, logs.MOST)
        return PlainTextResponse(data, headers={"Next-Offset": str(log.offset)})
    if is_live:
        events = logs.follow(found, asked, starts, watch) if request.method == "GET" else ()
        return StreamingResponse(events, media_type="text/event-stream")
    part = await reading(lambda: asked.parts(starts, ended=found.status.is_final))
    return PlainTextResponse(part.text, headers={"Next-Offset": part.offsets})


@endpoint("look", "GET /runs/{run}/script", media=("text/plain",))
async def read_script(found: Found, task: TaskQuery = "0") -> Response:
    """the script of `task`"""
    logs.log_of(found, task)  # raises an error for an unknown task
    return PlainTextResponse(await reading(runs.script, found, task))


@endpoint("look", "GET /runs/{run}/outputs", [schemas.Output], headers=("Link",))
async def list_outputs(
    run: Found,
    start: Annotated[
        int, Query(alias="from", ge=0, le=10**15, description="how many files to skip")
    ] = 0,
) -> Response:
    """the output files of the tasks whose names are UTF-8, with their sizes and octal modes,
    1,000 at a time; a link to a folder has its `link`; the header `Link` leads to the next"""
    found, more = await reading(runs.outputs, run, start)
    answer = JSONResponse(found)
    if more:
        following = f"/api/v1/runs/{run.id}/outputs?from={start + len(found)}"
        answer.headers["Link"] = f'<{following}>; rel="next"'
    return answer


@endpoint("look", "GET /runs/{run}/outputs/{path:path}", media=("application/octet-stream",))
async def read_output(run: Found, path: str) -> Response:
    """one of these files"""
    file = await reading(runs.output, run, path)
    # Never shown inline: a page in the file must not run with this site's origin.
    return FileResponse(file, media_type="application/octet-stream", filename=file.name)


@endpoint("look", "GET /compare", [schemas.Compared])
async def compare_runs(
    request: Request,
    run: Annotated[list[str], Query(default_factory=list, description="a run; may be repeated")],
) -> Response:
    """what `fairway compare --json` prints for the runs named, as in `?run=RUN&run=RUN`"""
    found, _ = runs.compared(site_of(request).runs, run)
    return await reading(lambda: JSONResponse(compare(found)))


@endpoint(
    "submit",
    "POST /runs",
    schemas.Submitted,
    status=201,
    body=_JOB,
    headers=("Location", "Findings"),
)
async def submit_job(request: Request, job: Job) -> Response:
    """submits a job, as `fairway submit --json` does; with the same `run_id` again, it is the same
    run"""
    site = site_of(request)
    run, warnings = await submitting(submissions.submit, site.runs, job)
    site.refresher.watch()
    facts = await reading(started_facts, run)
    beside = {"Location": f"/api/v1/runs/{run.id}", "Findings": runs.findings_header(warnings)}
    return JSONResponse(facts, 201, beside)


@endpoint(
    "submit",
    "POST /code",
    schemas.Code,
    body={"application/json": schemas.Pieces.model_json_schema()},
)
async def send_code(request: Request) -> Response:
    """takes the list of pieces of some code, `{"pieces": [SHA-256, …]}`; answers with its name for
    `code`, and the pieces that are `missing`"""
    uploads, body = Uploads(site_of(request).runs.base), await request.body()
    return JSONResponse(await reading(uploads.wanted, body))


@endpoint(
    "submit",
    "POST /code/{digest}",
    schemas.Piece,
    status=201,
    body={"application/octet-stream": {}},
)
async def send_piece(request: Request, digest: Name) -> Response:
    """takes one piece of at most 1 MiB, by the SHA-256 of its bytes"""
    uploads, body = Uploads(site_of(request).runs.base), await request.body()
    return JSONResponse(await reading(uploads.keep, digest, body), 201)


@endpoint("submit", "POST /check", schemas.Checked, body=_JOB)
async def check_job(request: Request, job: Job) -> Response:
    """what a job would start, with its `scripts` and warnings; nothing is started"""
    return JSONResponse(await checking(submissions.check, site_of(request).runs, job))


@endpoint("submit", "POST /render", schemas.Rendered, body=_JOB)
async def render_job(request: Request, job: Job) -> Response:
    """what `fairway render --json` prints"""
    return JSONResponse(await checking(submissions.render, site_of(request).runs, job))


@endpoint("steer", "POST /runs/{run}/cancel", schemas.Cancelled)
async def cancel_run(
    found: Found, task: Annotated[str, Query(description="only this task, or step")] = ""
) -> Response:
    """ends the run, or one task of it, as in `?task=1`; returns when that has ended"""
    await acting(actions.cancel_run, found, task or None)
    return JSONResponse(await reading(cancel_facts, found, task or None))


@endpoint("steer", "POST /runs/{run}/retry", schemas.Retried)
async def retry_run(found: Found) -> Response:
    """retries the tasks that did not succeed"""
    tasks = await acting(actions.retry_run, found)
    return JSONResponse({"run_id": found.id, "tasks": len(tasks)})


@endpoint("look", "GET /targets", [schemas.Target])
async def list_targets(request: Request) -> Response:
    """what `fairway targets list --offline --json` prints"""
    return JSONResponse(await reading(actions.list_targets))


@endpoint("look", "GET /targets/{target}/nodes", [schemas.Node])
async def list_nodes(request: Request, target: Name) -> Response:
    """what `fairway nodes list TARGET --json` prints"""
    found = await reading(find_target, target)
    return JSONResponse(await acting(actions.list_nodes, found))


@endpoint("nodes", "POST /targets/{target}/nodes/{node}/{action}", schemas.NodeAction)
async def act_on_node(request: Request, target: Name, node: Name, action: Name) -> Response:
    """`drain` keeps new work off the node; `resume` ends that"""
    found = await reading(find_target, target)
    await acting(actions.act_on_nodes, found, action, [node])
    return JSONResponse({"node": node, "action": action})


@endpoint("look", "GET /environments", [schemas.Environment])
async def list_environments(request: Request) -> Response:
    """the names and files of environments"""
    known = await reading(known_environments)
    return JSONResponse([{"name": name, "file": str(file)} for name, file in known.items()])


@endpoint("look", "GET /environments/{name}/check", [schemas.Finding])
async def check_environment(request: Request, name: Name) -> Response:
    """what `fairway check NAME --json` prints"""
    found = await checking(actions.checked, actions.environment_file(name))
    return JSONResponse([finding_facts(each) for each in found])


@endpoint("look", "GET /environments/{name}/cost", dict[str, Any])
async def cost_of_environment(request: Request, name: Name) -> Response:
    """what `fairway cost NAME --offline --json` prints"""
    return JSONResponse(await checking(actions.cost, actions.environment_file(name)))


@endpoint("look", "GET /environments/{name}/diagram", media=("image/svg+xml",))
async def draw_environment(request: Request, name: Name) -> Response:
    """a diagram, as SVG"""
    file = actions.environment_file(name)
    picture = await checking(actions.draw_diagram, file, file.stat().st_mtime_ns)
    return Response(picture, media_type="image/svg+xml")


@endpoint("look", "GET /cost", schemas.RunCosts)
async def cost_of_runs(
    request: Request,
    by: Annotated[
        Literal["run", *BY],  # type: ignore[valid-type]
        Query(description="what the runs are grouped by"),
    ] = "run",
    since: Annotated[str, Query(description="a time, or how long ago")] = "",
) -> Response:
    """what `fairway cost --runs --offline --json` prints for the runs of this project, and
    `findings` about damaged ones; `by`, `since`"""
    site = site_of(request)
    site.refresher.watch()
    return JSONResponse(await reading(actions.run_costs, site.runs, by, since))


@endpoint("look", "GET /openapi.json", dict[str, Any])
async def openapi(request: Request) -> Response:
    """all these calls, as an OpenAPI document"""
    return JSONResponse(document())
