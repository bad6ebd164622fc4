"""Callers and their roles, the rights of each role, and the audit of actions."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING

from starlette.routing import Route

from fairway_core.findings import UserError
from fairway_runner.jobs.project_files import set_within
from fairway_runner.runs import labels

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import ASGIApp, Receive, Scope, Send

    from fairway_runner.runs.store import Run


class Role(IntEnum):
    """App roles of Entra ID; each includes those before it."""

    READER = 1
    SUBMITTER = 2
    OPERATOR = 3

    @property
    def title(self) -> str:
        """Value of the claim `roles`."""
        return self.name.capitalize()


ACTIONS = {
    "look": (Role.READER, "see runs, their logs, outputs and scripts, targets, environments, cost"),
    "submit": (
        Role.SUBMITTER,
        "submit jobs to listed targets, with code of the project, of an earlier run, or their own",
    ),
    "steer": (Role.SUBMITTER, "cancel and retry the runs that they submitted here"),
    "steer-all": (Role.OPERATOR, "cancel and retry all runs"),
    "nodes": (Role.OPERATOR, "drain and resume nodes"),
    "here": (
        Role.OPERATOR,
        "run jobs on all targets and the server's machine, and submit code of its other folders",
    ),
}
"""Possible actions: the lowest role that may perform each, and a description."""

OPEN = "open"
"""Action that needs no sign-in."""

ROUTES: dict[str, str] = {}
"""Actions of the routes, by method and path; each route registers its own."""


@dataclass(frozen=True)
class Person:
    """A signed-in person, or a program, until `ends`, in seconds since 1970."""

    id: str
    name: str
    role: Role
    ends: float = float("inf")

    @property
    def is_named(self) -> bool:
        return bool(self.id)

    def may(self, action: str) -> bool:
        return action == OPEN or self.role >= ACTIONS[action][0]


ALONE = Person("", "", Role.OPERATOR)
"""The user of this machine, who has the token of this server process."""


@dataclass(frozen=True)
class RequestContext:
    """The person behind a request, and the audit file for their actions."""

    person: Person = ALONE
    audit: Path | None = None


_context: ContextVar[RequestContext] = ContextVar("context")


def request_context() -> RequestContext:
    """Returns the context of the current request, even in threads that work for it."""
    return _context.get(RequestContext())


def in_context(context: RequestContext) -> AbstractContextManager[None]:
    return set_within(_context, context)


def is_allowed(action: str) -> bool:
    return request_context().person.may(action)


def require(action: str, path: str) -> None:
    """Raises UserError if the caller may not perform the action, and records the refusal."""
    if not is_allowed(action):
        with audited(action, {"path": path}):
            raise refused(action)


def refused(action: str) -> UserError:
    """Returns the error for a person whose role does not suffice."""
    needed, says = ACTIONS[action]
    own = request_context().person.role.title
    message = f"the role {own} does not let you {says}"
    hint = f"ask for the role {needed.title} in Entra ID, and sign in again"
    return UserError.of("missing-role", message, hint)


def route(
    action: str, path: str, endpoint: Callable[[Request], Awaitable[Response]], method: str = "GET"
) -> Route:
    """Returns a route of the pages, for people whose role allows the action."""
    made = Route(path, endpoint, methods=[method])
    made.app = requiring(action, f"{method} {path}", made.app)
    return made


def requiring(action: str, name: str, app: ASGIApp) -> ASGIApp:
    """Returns an app for the route of that name that answers only people with the right role."""
    ROUTES[name] = action

    async def allowed(scope: Scope, receive: Receive, send: Send) -> None:
        require(action, scope["path"])
        await app(scope, receive, send)

    return allowed


def by() -> dict[str, str] | None:
    """Returns the caller, for a record; None for this machine's only user."""
    person = request_context().person
    return {"name": person.name, "id": person.id} if person.is_named else None


@contextmanager
def audited(action: str, about: Mapping[str, str]) -> Iterator[None]:
    """Records outcome and object of the block, but nothing sent, in the audit file, if any."""
    outcome = "failed"
    try:
        yield
        outcome = "done"
    except UserError as error:
        outcome = error.findings[0].id
        raise
    finally:
        file, person = request_context().audit, request_context().person
        if file is not None:
            facts = {"at": time.time(), "by": person.name, "id": person.id}
            facts |= {"role": person.role.title, "action": action, **about, "outcome": outcome}
            file.parent.mkdir(parents=True, exist_ok=True)
            labels.append(file, facts)


@contextmanager
def audit_and_note(action: str, run: Run) -> Iterator[None]:
    """Audits like `audited`; if the block succeeds, records a named person in the run too."""
    with audited(action, {"run": run.id}):
        yield
        if (who := by()) is not None:
            labels.note(run.folder, action, who)
