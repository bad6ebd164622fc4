"""Who asks, and what the roles may do: the one table that routes, pages and docs go by."""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

from fairway_core.findings import UserError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Role(IntEnum):
    """The app roles of Entra ID; each may do what those before it may."""

    READER = 1
    SUBMITTER = 2
    OPERATOR = 3

    @property
    def word(self) -> str:
        """As the claim `roles` has it."""
        return self.name.capitalize()


ACTIONS = {
    "look": (
        Role.READER,
        "see runs, their logs, outputs and scripts, targets, environments, cost",
    ),
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
"""Each thing that can be done: the least role for it, and what it is in words."""

OPEN = "open"
"""What anybody may do, without a sign-in."""

ROUTES = {
    "GET /healthz": OPEN,
    "GET /login": OPEN,
    "GET /static/report.css": "look",
    "GET /static": "look",
    "GET /metrics": "look",
    "GET /": "look",
    "POST /runs": "steer",
    "GET /runs/{run}": "look",
    "GET /runs/{run}/sections": "look",
    "GET /compare": "look",
    "GET /cost": "look",
    "GET /submit": "submit",
    "POST /submit": "submit",
    "POST /submit/check": "submit",
    "GET /targets": "look",
    "GET /targets/{target}": "look",
    "POST /targets/{target}": "nodes",
    "GET /environments": "look",
    "GET /environments/{name}": "look",
    "GET /api/v1/openapi.json": "look",
    "GET /api/v1/runs": "look",
    "POST /api/v1/runs": "submit",
    "POST /api/v1/code": "submit",
    "POST /api/v1/code/{digest}": "submit",
    "POST /api/v1/check": "submit",
    "POST /api/v1/render": "submit",
    "GET /api/v1/runs/{run}": "look",
    "GET /api/v1/runs/{run}/state": "look",
    "GET /api/v1/compare": "look",
    "GET /api/v1/runs/{run}/log": "look",
    "GET /api/v1/runs/{run}/script": "look",
    "GET /api/v1/runs/{run}/outputs": "look",
    "GET /api/v1/runs/{run}/outputs/{path:path}": "look",
    "POST /api/v1/runs/{run}/cancel": "steer",
    "POST /api/v1/runs/{run}/retry": "steer",
    "GET /api/v1/targets": "look",
    "GET /api/v1/targets/{target}/nodes": "look",
    "POST /api/v1/targets/{target}/nodes/{node}/{action}": "nodes",
    "GET /api/v1/cost": "look",
    "GET /api/v1/environments": "look",
    "GET /api/v1/environments/{name}/check": "look",
    "GET /api/v1/environments/{name}/cost": "look",
    "GET /api/v1/environments/{name}/diagram": "look",
}
"""What one must be allowed to do for each route; one that is not here cannot be served."""


@dataclass(frozen=True)
class Person:
    """Somebody who has signed in, or a program; `ends` is when their token does, in seconds since
    1970."""

    id: str
    name: str
    role: Role
    ends: float = float("inf")

    @property
    def is_named(self) -> bool:
        """Whether it is known who it is."""
        return bool(self.id)

    def may(self, action: str) -> bool:
        """Whether the role is enough."""
        return action == OPEN or self.role >= ACTIONS[action][0]


ALONE = Person("", "", Role.OPERATOR)
"""The user of this machine, who has the token of this start."""


@dataclass(frozen=True)
class Visit:
    """The person behind a request, and the file in which it is recorded what they do."""

    person: Person = ALONE
    audit: Path | None = None


_visit: ContextVar[Visit] = ContextVar("visit", default=Visit())  # noqa: B039 - it is frozen


def visit() -> Visit:
    """That of the request that is answered; also in threads that work for it."""
    return _visit.get()


@contextmanager
def visited(by: Visit) -> Iterator[None]:
    """Sets it for what is done inside."""
    before = _visit.set(by)
    try:
        yield
    finally:
        _visit.reset(before)


def may(action: str) -> bool:
    """Whether the person who asks may do it."""
    return visit().person.may(action)


def require(action: str) -> None:
    """UserError where they may not."""
    if not may(action):
        raise refused(action)


def refused(action: str) -> UserError:
    """What is said to a person whose role is not enough."""
    needed, says = ACTIONS[action]
    own = visit().person.role.word
    message = f"the role {own} does not let you {says}"
    hint = f"ask for the role {needed.word} in Entra ID, and sign in again"
    return UserError.of("missing-role", message, hint)


def role_table() -> list[str]:
    """The rows of the docs' table."""
    mark = {True: "yes", False: ""}
    return [
        f"| {says} | " + " | ".join(mark[role >= least] for role in Role) + " |"
        for least, says in ACTIONS.values()
    ]
