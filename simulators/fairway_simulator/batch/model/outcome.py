"""How an attempt of a task ended, and what the task's exit conditions make of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True)
class Outcome:
    """The end of an attempt. `failure` is the wire's failureInfo, None for success."""

    kind: Literal["exit", "preprocessing", "upload", "ended"]
    exit_code: int | None = None
    failure: dict[str, Any] | None = None


def failure(code: str, message: str, *, category: str = "usererror", **details: object) -> Any:
    """A failureInfo in its wire form."""
    info: dict[str, Any] = {"category": category, "code": code, "message": message}
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


def actions(conditions: dict[str, Any] | None, outcome: Outcome) -> tuple[str, str]:
    """The job's action (`none`, `disable` or `terminate`) and the dependents' (`satisfy` or
    `block`) by a task's exit conditions. Source: ExitOptions of the service's REST reference,
    with its defaults."""
    good = outcome.failure is None
    options = _options(conditions or {}, outcome) or {}
    job_action = options.get("jobAction") or ("none" if good else "terminate")
    dependency_action = options.get("dependencyAction") or ("satisfy" if good else "block")
    return str(job_action).lower(), str(dependency_action).lower()


def _options(conditions: dict[str, Any], outcome: Outcome) -> dict[str, Any] | None:
    found: dict[str, Any] | None = None
    if outcome.kind == "preprocessing":
        found = conditions.get("preProcessingError")
    elif outcome.kind == "upload":
        found = conditions.get("fileUploadError")
    if found is None and outcome.exit_code is not None:
        found = _by_code(conditions, outcome.exit_code)
    if found is None and outcome.failure is not None:
        found = conditions.get("default")
    return found


def _by_code(conditions: dict[str, Any], code: int) -> dict[str, Any] | None:
    found = [
        mapping["exitOptions"]
        for mapping in conditions.get("exitCodes") or ()
        if mapping["code"] == code
    ]
    found += [
        mapping["exitOptions"]
        for mapping in conditions.get("exitCodeRanges") or ()
        if mapping["start"] <= code <= mapping["end"]
    ]
    return found[0] if found else None
