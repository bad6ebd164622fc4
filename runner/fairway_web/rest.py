"""REST under `/api/v1`: what `--json` prints, and the calls behind the buttons of the pages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from starlette.responses import (
    FileResponse,
    JSONResponse,
    PlainTextResponse,
    Response,
    StreamingResponse,
)
from starlette.routing import Route

from fairway_core.findings import Finding, UserError
from fairway_runner.runs.compare import compare
from fairway_runner.runs.detail import Detail
from fairway_runner.runs.steps import has_steps, to_begin
from fairway_runner.runs.view import run_facts
from fairway_web import files, logs, standing
from fairway_web.acting import acting, checking, reading, submitting
from fairway_web.listing import columns_of, compared, listed
from fairway_web.scripts import script
from fairway_web.steering import cancel_run, retry_run
from fairway_web.submitting import read_asked

if TYPE_CHECKING:
    from starlette.requests import Request

    from fairway_runner.runs.store import Run
    from fairway_web.project import Refresher, Runs
    from fairway_web.submitting import Submitting

_UNKNOWN = frozenset(
    f"unknown-{what}"
    for what in (
        *("run", "task", "output", "target", "node", "rank", "environment"),
        *("code", "piece"),
    )
)
_WRONG_STATE = frozenset({"running-run", "nothing-to-retry", "taken-run-id"})
_STATUS = {2: 422, 3: 409, 5: 502}


def problem(error: UserError) -> JSONResponse:
    """What is said of an error: its findings, and the status that its exit code stands for."""
    codes = {finding.id for finding in error.findings}
    status = 404 if codes & _UNKNOWN else _STATUS.get(error.exit_code, 422)
    if codes & _WRONG_STATE:
        status = 409
    if "missing-role" in codes:
        status = 403
    facts = [standing.told(each) for each in error.findings]
    return JSONResponse({"findings": facts, "exit_code": error.exit_code}, status)


class Rest:
    """The handlers, over the runs of one project."""

    def __init__(self, runs: Runs, refresher: Refresher, submitting: Submitting) -> None:
        self._runs = runs
        self._refresher = refresher
        self._submitting = submitting

    def rest_routes(self) -> list[Route]:
        """What is answered below `/api/v1`."""
        return [
            Route("/runs", self.list),
            Route("/runs", self.submit, methods=["POST"]),
            Route("/code", self.wanted, methods=["POST"]),
            Route("/code/{digest}", self.keep, methods=["POST"]),
            Route("/check", self.check, methods=["POST"]),
            Route("/render", self.render, methods=["POST"]),
            Route("/runs/{run}", self.show),
            Route("/runs/{run}/state", self.state),
            Route("/compare", self.compare),
            Route("/runs/{run}/log", self.log),
            Route("/runs/{run}/script", self.script),
            Route("/runs/{run}/outputs", self.outputs),
            Route("/runs/{run}/outputs/{path:path}", self.output),
            Route("/runs/{run}/cancel", self.cancel, methods=["POST"]),
            Route("/runs/{run}/retry", self.retry, methods=["POST"]),
        ]

    def _run(self, request: Request) -> Run:
        return self._runs.find(request.path_params["run"])

    async def list(self, request: Request) -> Response:
        """Runs as `fairway list --json` prints them, the newest first."""
        self._refresher.watch()
        query, unanswered = request.query_params, list[Finding]()
        if flag(request, "fresh"):
            unanswered = await acting(standing.look_at_all, self._runs, columns_of(query))
        found = await reading(listed, self._runs, query)
        answer = JSONResponse(list(found.runs))
        answer.headers["Findings"] = standing.findings_header([*unanswered, *found.findings])
        if found.older:
            answer.headers["Link"] = f'</api/v1/runs?{found.older}>; rel="next"'
        return answer

    async def submit(self, request: Request) -> Response:
        """Starts a job; asked for again with the same `run_id`, it is the same run."""
        asked = read_asked(await request.body())
        run, warnings = await submitting(self._submitting.submit, asked)
        self._refresher.watch()
        facts = await reading(_started, run)
        beside = {"Location": f"/api/v1/runs/{run.id}"}
        beside["Findings"] = standing.findings_header(warnings)
        return JSONResponse(facts, 201, beside)

    async def wanted(self, request: Request) -> Response:
        """Takes the list of the pieces of some code, and says which it has not."""
        body = await request.body()
        return JSONResponse(await reading(self._submitting.sent.wanted, body))

    async def keep(self, request: Request) -> Response:
        """Takes a piece of code."""
        digest, body = request.path_params["digest"], await request.body()
        found = await reading(self._submitting.sent.keep, digest, body)
        return JSONResponse(found, 201)

    async def check(self, request: Request) -> Response:
        """What a job would start, and what is wrong with it; nothing is started."""
        asked = read_asked(await request.body())
        return JSONResponse(await checking(self._submitting.check, asked))

    async def render(self, request: Request) -> Response:
        """The script of a job, as `fairway render --json` prints it."""
        asked = read_asked(await request.body())
        return JSONResponse(await checking(self._submitting.render, asked))

    async def show(self, request: Request) -> Response:
        """A run as `fairway show --json` prints it."""
        run = self._run(request)
        self._refresher.watch()
        return await reading(lambda: JSONResponse(Detail.of(run).to_json()))

    async def state(self, request: Request) -> Response:
        """Where a run stands, by the beginning of its ID too; `fresh` asks its target first."""
        text = request.path_params["run"]
        run = await reading(standing.find, self._runs, text)
        self._refresher.watch(run.id)
        if flag(request, "fresh"):
            await acting(standing.look, run)
        return JSONResponse(await reading(standing.facts, run))

    async def compare(self, request: Request) -> Response:
        """Runs side by side, as `fairway compare --json` prints them."""
        runs, _ = compared(self._runs, request)
        return await reading(lambda: JSONResponse(compare(runs)))

    async def log(self, request: Request) -> Response:
        """What a task printed, or `all`, from a byte on: as text, or as events where those are
        accepted."""
        run = self._run(request)
        query = request.query_params
        task, rank, is_raw = query.get("task", "0"), query.get("rank", ""), flag(request, "raw")
        is_live = "text/event-stream" in request.headers.get("accept", "")
        if is_raw and (rank or (task == logs.ALL and not is_live)):
            hint = "leave `rank` out, and name a task unless you ask for events"
            raise UserError.of("bad-value", "`raw` is for one whole log", hint)
        asked = await reading(
            *((logs.Logs.raw_of, run, task) if is_raw else (logs.Logs.of, run, task, rank))
        )
        starts = asked.starts(request.headers.get("last-event-id") or query.get("from", ""))
        self._refresher.watch(run.id)
        if is_live:
            events = logs.follow(run, asked, starts, self._refresher.watch)
            return StreamingResponse(events, media_type="text/event-stream")
        found = await reading(lambda: asked.parts(starts, ended=run.status.is_final))
        text = found.text.encode("utf-8", "surrogateescape")
        return PlainTextResponse(text, headers={"Next-Offset": found.offsets})

    async def script(self, request: Request) -> Response:
        """The script of a task."""
        run, task = self._run(request), request.query_params.get("task", "0")
        logs.log_of(run, task)  # refuses what is no task
        return PlainTextResponse(await reading(script, run, task))

    async def outputs(self, request: Request) -> Response:
        """The files that tasks have kept, with their sizes; of very many a part, and the address of
        the next."""
        run, start = self._run(request), _count(request, "from", "a number of files")
        found, more = await reading(files.outputs, run, start)
        answer = JSONResponse(found)
        if more:
            following = f"/api/v1/runs/{run.id}/outputs?from={start + len(found)}"
            answer.headers["Link"] = f'<{following}>; rel="next"'
        return answer

    async def output(self, request: Request) -> Response:
        """One of them, never shown inline: a page in it must not run as ours."""
        run, path = self._run(request), request.path_params["path"]
        file = await reading(files.output, run, path)
        return FileResponse(file, media_type="application/octet-stream", filename=file.name)

    async def cancel(self, request: Request) -> Response:
        """Ends a run early, or one task of it; answers when that has ended."""
        run, task = self._run(request), request.query_params.get("task") or None
        await acting(cancel_run, run, task)
        return JSONResponse(await reading(standing.cancelled, run, task))

    async def retry(self, request: Request) -> Response:
        """Runs the unsuccessful tasks of an ended run again."""
        run = self._run(request)
        tasks = await acting(retry_run, run)
        return JSONResponse({"run_id": run.id, "tasks": len(tasks)})


def _started(run: Run) -> dict[str, Any]:
    """What `fairway submit --json` prints."""
    facts = run_facts(run)
    found = {name: facts[name] for name in ("run_id", "target", "tasks", "state")}
    return found | ({"steps_to_begin": to_begin(run)} if has_steps(run.folder) else {})


def flag(request: Request, name: str) -> bool:
    """Whether the address says `true` of something; UserError for another word than `false`."""
    text = request.query_params.get(name) or "false"
    if text in ("true", "false"):
        return text == "true"
    raise UserError.of("bad-value", f"`{name}` is neither true nor false", f"{name}=true")


def _count(request: Request, name: str, what: str) -> int:
    """A number of the address, 0 by default; UserError where it is none."""
    text = request.query_params.get(name, "0")
    if text.isascii() and text.isdecimal() and len(text) < 16:
        return int(text)
    raise UserError.of("bad-value", f"`{name}` is not {what}", "0 is the beginning")


def metrics(runs: Runs) -> str:
    """The runs by state and target, in Prometheus' text format."""
    counts: dict[tuple[str, str], int] = {}
    for run in runs.unsorted():
        try:
            key = (run.record.target, run.state)
        except (UserError, OSError):
            continue  # `list` says what is wrong with it
        counts[key] = counts.get(key, 0) + 1
    lines = ["# HELP fairway_runs Runs of this project.", "# TYPE fairway_runs gauge"]
    for (target, state), count in sorted(counts.items()):
        lines.append(f'fairway_runs{{target="{_label(target)}",state="{state}"}} {count}')
    return "\n".join(lines) + "\n"


def _label(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
