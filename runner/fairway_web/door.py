"""How one comes in: what each way to reach the server must answer for a request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pathlib import Path

    from starlette.datastructures import Headers
    from starlette.types import Scope

    from fairway_web.roles import Person

SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
OPEN_PATHS = frozenset({"/healthz"})


class Refused(Exception):
    """Nobody comes in with that: a status, an id for programs, and what is said of it."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message


class Door(Protocol):
    """One way in."""

    @property
    def audit(self) -> Path | None:
        """The file in which it is recorded who does what, where people have names."""

    def is_here(self, host: str, path: str) -> bool:
        """Whether that is the name of this server."""

    def is_wanted(self, scope: Scope, headers: Headers) -> bool:
        """Whether what is asked for can be given to the page that asks, if it is one."""

    def is_ours(self, headers: Headers) -> bool:
        """Whether a page of ours sent it, or a program that is no browser."""

    async def person(self, headers: Headers, path: str) -> Person:
        """Who asks; Refused where that is not known."""


def refused_site(status: int = 403) -> Refused:
    """What is said to a page of another site that asks for something."""
    return Refused(status, "foreign-page", "a page of another site asked for this")
