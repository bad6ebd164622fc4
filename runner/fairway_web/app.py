"""The application: its routes, and the answers to errors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from fairway_core.findings import UserError
from fairway_web.api import api, problem
from fairway_web.auth import ByToken
from fairway_web.environments import Programs, metrics
from fairway_web.guard import Guard, too_large
from fairway_web.pages import PAGES, problem_page
from fairway_web.roles import OPEN, requiring, route
from fairway_web.runs import Runs
from fairway_web.submit_page import SUBMIT_PAGES
from fairway_web.threads import Site, file_error, reading, site_of

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from starlette.requests import Request
    from starlette.routing import BaseRoute

    from fairway_runner.runs.store import RunStore
    from fairway_web.api import Handler
    from fairway_web.auth import SignIn
    from fairway_web.threads import Follower


def application(
    store: RunStore,
    token: str,
    hosts: Collection[str],
    cookie: str,
    code: str,
    program: Sequence[str] = ("fairway",),
    follower: Follower | None = None,
) -> Guard:
    """The server of one project's runs, for those who have the token, or are the first to have the
    code. `hosts` are the names, with their port or `*` for any, under which it is reached; see
    `Site` for the rest."""
    codes = {code}
    sign_in = ByToken(token, hosts, cookie)

    async def login(request: Request) -> Response:
        query = request.query_params
        if query.get("code", "") in codes:
            codes.clear()
        elif not sign_in.is_token(query.get("token", "")):
            text = "this is not the token of this start: open the address that was printed\n"
            return PlainTextResponse(text, 401)
        answer = RedirectResponse("/", 303)
        answer.set_cookie(cookie, token, httponly=True, samesite="strict")
        return answer

    site = Site(Runs(store.base), Programs(program), follower)
    return Guard(_application(site, [Route("/login", login)]), sign_in)


def shared_application(
    store: RunStore, sign_in: SignIn, program: Sequence[str], follower: Follower | None = None
) -> Guard:
    """The server for those who sign in at a proxy in front of it."""
    return Guard(_application(Site(Runs(store.base), Programs(program), follower), []), sign_in)


def _application(site: Site, more: Sequence[BaseRoute]) -> Starlette:
    site.refresher.start()
    static = StaticFiles(packages=[("fairway_web", "static")])
    app = Starlette(
        routes=[
            *more,
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
    return app


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
