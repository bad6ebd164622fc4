"""The application: its routes, and what is said of errors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from fairway_core.findings import UserError
from fairway_web.acting import file_error, reading
from fairway_web.auth import ByToken
from fairway_web.costs import Costs
from fairway_web.environments import Environments
from fairway_web.guard import Guard, too_large
from fairway_web.openapi import openapi
from fairway_web.pages import Pages, problem_page
from fairway_web.project import Refresher, Runs
from fairway_web.rest import Rest, metrics, problem
from fairway_web.roles import ROUTES, audited, may, refused
from fairway_web.sent import Sent
from fairway_web.styles import report_style
from fairway_web.submit_page import SubmitPage
from fairway_web.submitting import Submitting
from fairway_web.targets import Targets

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from starlette.requests import Request
    from starlette.types import ASGIApp, Receive, Scope, Send

    from fairway_runner.runs.store import RunStore
    from fairway_web.auth import SignIn
    from fairway_web.following import Follower


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
    code.

    `hosts` are the names, with their port or `*` for any, under which it is reached; `program` is
    what starts Fairway's commands. What the `follower` finds is shown.
    """
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

    return Guard(_pages(store, program, [Route("/login", login)], follower), sign_in)


def shared_application(
    store: RunStore, sign_in: SignIn, program: Sequence[str], follower: Follower | None = None
) -> Guard:
    """The server for those who sign in at a proxy in front of it."""
    return Guard(_pages(store, program, [], follower), sign_in)


def _pages(
    store: RunStore,
    program: Sequence[str],
    more: Sequence[BaseRoute],
    follower: Follower | None,
) -> Starlette:
    runs = Runs(store.base)
    refresher = Refresher(runs)
    refresher.start()
    submitting = Submitting(runs, Sent(runs))
    rest, targets = Rest(runs, refresher, submitting), Targets(runs)
    parts = (targets, Costs(runs, refresher), Environments(program))

    async def prometheus(request: Request) -> Response:
        refresher.watch()
        text = await reading(metrics, runs)
        return PlainTextResponse(text, media_type="text/plain; version=0.0.4")

    app = Starlette(
        routes=[
            Route("/healthz", _healthy),
            *more,
            Route("/metrics", prometheus),
            Route("/static/report.css", report_style),
            Mount("/static", StaticFiles(packages=[("fairway_web", "static")])),
            Mount(
                "/api/v1",
                routes=[
                    Route("/openapi.json", openapi),
                    *(each for part in (rest, *parts) for each in part.rest_routes()),
                ],
            ),
            *Pages(runs, refresher, follower).routes(),
            *(each for part in parts for each in part.routes()),
            *SubmitPage(runs, refresher, submitting).routes(),
        ],
        exception_handlers={
            UserError: _user_error,
            OSError: _file_error,
            HTTPException: _http_error,
            ClientDisconnect: _cut_off,
        },
    )
    _give_roles(app.routes)
    return app


def _give_roles(routes: Sequence[BaseRoute], before: str = "") -> None:
    """Lets those call a route alone who may, by the table of roles; KeyError for one that is not
    in it."""
    for route in routes:
        if isinstance(route, Mount) and route.routes:
            _give_roles(route.routes, before + route.path)
        elif isinstance(route, Mount):
            route.app = _allowed(route.app, ROUTES[f"GET {before}{route.path}"])
        else:
            assert isinstance(route, Route)
            (method,) = (route.methods or set()) - {"HEAD"}
            route.app = _allowed(route.app, ROUTES[f"{method} {before}{route.path}"])


def _allowed(app: ASGIApp, action: str) -> ASGIApp:
    async def allowed(scope: Scope, receive: Receive, send: Send) -> None:
        if not may(action):
            with audited(action, {"path": scope["path"]}):
                raise refused(action)
        await app(scope, receive, send)

    return allowed


async def _healthy(request: Request) -> Response:
    return PlainTextResponse("ok\n")


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
