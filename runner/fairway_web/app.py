"""The application: its routes, and the answers to errors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles

from fairway_core.findings import UserError
from fairway_web.api import api, problem
from fairway_web.environments import metrics
from fairway_web.guard import Guard, too_large
from fairway_web.pages import PAGES, problem_page
from fairway_web.roles import OPEN, requiring, route
from fairway_web.runs import Runs
from fairway_web.submit_page import SUBMIT_PAGES
from fairway_web.threads import Site, file_error, reading, site_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.requests import Request

    from fairway_runner.runs.store import RunStore
    from fairway_web.api import Handler
    from fairway_web.auth import SignIn
    from fairway_web.threads import Follower


def application(store: RunStore, sign_in: SignIn, follower: Follower | None = None) -> Guard:
    """The server of one project's runs, for those who sign in so; see `Site` for the rest."""
    site = Site(Runs(store.base), follower)
    site.refresher.start()
    static = StaticFiles(packages=[("fairway_web", "static")])
    app = Starlette(
        routes=[
            *sign_in.routes,
            *PAGES,
            *SUBMIT_PAGES,
            route(OPEN, "/healthz", _healthy),
            route("look", "/metrics", _metrics),
            Mount("/static", requiring("look", "GET /static", static)),
            Mount("/api/v1", api(site, _HANDLERS)),
        ],
        exception_handlers=_HANDLERS,
    )
    app.state.site = site
    return Guard(app, sign_in)


async def _healthy(request: Request) -> Response:
    return PlainTextResponse("ok\n")


async def _metrics(request: Request) -> Response:
    site = site_of(request)
    site.refresher.watch()
    text = await reading(metrics, site.runs)
    return PlainTextResponse(text, media_type="text/plain; version=0.0.4")


async def _user_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, UserError)
    answer = problem(error)
    if request.url.path.startswith("/api/"):
        return answer
    return problem_page(error, answer.status_code)


async def _file_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, OSError)
    return await _user_error(request, file_error(error))


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    found = UserError.of("no-such-page", str(error.detail), "the first page is /")
    if request.url.path.startswith("/api/"):
        answer: Response = problem(found)
        answer.status_code = error.status_code
    else:
        answer = problem_page(found, error.status_code)
    answer.headers.update(error.headers or {})
    return answer


async def _cut_off(request: Request, error: Exception) -> Response:
    return too_large(request.scope)  # where the caller has gone, nobody reads it


_HANDLERS: Mapping[Any, Handler] = {
    UserError: _user_error,
    OSError: _file_error,
    HTTPException: _http_error,
    ClientDisconnect: _cut_off,
}
