"""Pools whose nodes a service looks after: the formula by which it sizes them, and what its own
program on a node has written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, cast

from fairway_runner.engines.capabilities import capabilities
from fairway_runner.engines.engine import engine_for, unsupported

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fairway_core.target import Target


@dataclass(frozen=True)
class Evaluated:
    """What a formula has come to: the variables that it set, by name, at a moment in seconds since
    1970; or why it could not be evaluated."""

    variables: Mapping[str, str]
    evaluated: float | None
    error: str = ""


@dataclass(frozen=True)
class Formula:
    """The formula of a pool: its text, what it comes to now, and what the service made of the
    pool's own when it last went by it."""

    text: str
    now: Evaluated
    last: Evaluated | None


@dataclass(frozen=True)
class ServiceLogs:
    """Where the logs of a node will lie: a folder of a container of the target, and how many files
    there will be."""

    container: str
    folder: str
    files: int


class ServicePool(Protocol):
    """What the engine of such a pool does beside what every engine does."""

    def evaluate(self, formula: str | None) -> Formula:
        """What this formula, or the pool's own, comes to now; UserError where the pool has none."""

    def service_logs(self, node: str, since: float) -> ServiceLogs:
        """Has the service copy its logs of a node since a moment (seconds since 1970) to the
        target's storage; UserError where there is no such node."""


def formulas_of(target: Target) -> ServicePool:
    """Who evaluates the formula of a target; UserError where it goes by none."""
    engine = engine_for(target)
    if not capabilities(target.engine).evaluates:
        raise unsupported(engine, "evaluate a formula", "see its nodes: fairway nodes list TARGET")
    return cast("ServicePool", engine)


def logs_of(target: Target) -> ServicePool:
    """Who copies a service's logs of a node; UserError where no service runs on them."""
    engine = engine_for(target)
    if not capabilities(target.engine).service_logs:
        hint = f"look at the node: fairway ssh {target.name}"
        hint = hint if capabilities(target.engine).shell else "see what is wrong: fairway doctor"
        raise unsupported(engine, "copy the logs of its nodes", hint)
    return cast("ServicePool", engine)
