"""Outcome of an attempt of a task, and the action that its exit conditions ask for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

if TYPE_CHECKING:
    import threading


@dataclass(frozen=True)
class Outcome:
    """The end of an attempt. `failure` is the wire's failureInfo, None for success."""

    kind: Literal["exit", "preprocessing", "upload", "ended"]
    exit_code: int | None = None
    failure: dict[str, Any] | None = None


def failure(code: str, message: str, **details: object) -> Any:
    """A failureInfo in its wire form."""
    info: dict[str, Any] = {"category": "usererror", "code": code, "message": message}
    if details:
        info["details"] = [{"name": name, "value": str(v)} for name, v in details.items()]
    return info


def exited(code: int) -> Outcome:
    """The program ended by itself."""
    if code == 0:
        return Outcome("exit", 0)
    message = "The task exited with an exit code representing a failure"
    return Outcome("exit", code, failure("FailureExitCode", message))


def ended(message: str) -> Outcome:
    """The service ended the program."""
    return Outcome("ended", None, failure("TaskEnded", message))


def satisfies(conditions: dict[str, Any], outcome: Outcome) -> bool:
    """True if a task that ended so lets those that depend on it go on, by its exit conditions.
    Source: ExitOptions of the service's REST reference, with its defaults."""
    if outcome.failure is None:
        return True
    names = {"preprocessing": "preProcessingError", "upload": "fileUploadError"}
    options = conditions.get(names.get(outcome.kind, "")) or conditions.get("default") or {}
    return str(options.get("dependencyAction")).lower() == "satisfy"


class Attempt(Protocol):
    """An attempt: when its time is over, how to end it, and whether it has ended."""

    deadline: float | None
    """The POSIX time at which the task's wall-clock time is over."""
    done: threading.Event

    def end(self, outcome: Outcome) -> None:
        """Ends it early; it then counts as having ended so."""

    def abandon(self) -> None:
        """Ends it early, and nobody asks any more how."""
