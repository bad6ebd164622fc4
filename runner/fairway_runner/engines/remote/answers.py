"""What a cluster says of runs, checked before anything of it is written on this machine.

A cluster's host may be another's by now: what it sends names no file of its own choice here, and
has the shape that whatever reads a run's folder expects.
"""

from __future__ import annotations

import json
import math
import re
from typing import TYPE_CHECKING, Any

from fairway_core.findings import UserError, printable
from fairway_runner.engines.remote.node import kept
from fairway_runner.runs.records import FINAL_STATES, RunRecord, is_run_id

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from fairway_runner.runs.store import Run

_STATES = FINAL_STATES | {"queued", "running"}
_LAST_SECOND = 253_402_300_800.0  # the year 10000, which no calendar of Python's has
_DIGEST = re.compile(r"[0-9a-f]{64}")


class Unfit(Exception):
    """What was sent is not what was asked for; the text says why."""


def checked_states(found: Any, asked: Mapping[str, Run], host: str) -> dict[str, Any]:
    """By id of the runs that were `asked` about what the host knows of each, or None.

    UserError, which names the host, for an answer that is anything else.
    """
    try:
        runs = _mapping(_mapping(found, "answer").get("runs"), "runs")
        for run_id, run in asked.items():
            if runs.get(run_id) is not None:
                _check_run(_mapping(runs[run_id], run_id), run)
    except Unfit as error:
        message = f"{host} sent what cannot be the state of a run: {error}"
        hint = "nothing of it was taken over; is it still the host that it was?"
        raise UserError.of("host-failed", message, hint, exit_code=5) from None
    return {run_id: runs.get(run_id) for run_id in asked}


def listed_runs(answer: Any, host: str) -> list[tuple[str, Any, int]]:
    """The runs that a host has: of each its id, its files, which are still to be checked, and
    the number of its last submission. UserError where the answer lists no runs."""
    try:
        runs = _mapping(_mapping(answer, "answer").get("runs"), "runs")
        numbers = _mapping(answer.get("submissions"), "submissions")
    except Unfit as error:
        message = f"{host} sent what cannot be a list of runs: {error}"
        raise UserError.of("host-failed", message, exit_code=5) from None
    last = {run: number if _is_count(number) else 0 for run, number in numbers.items()}
    return [(run, files, last.get(run, 0)) for run, files in runs.items()]


def adopted(run_id: str, files: Any) -> tuple[RunRecord, dict[str, str]]:
    """The record of a run that lies at a cluster, and its other files by name.

    Unfit for anything that no submission writes.
    """
    if not is_run_id(run_id):
        raise Unfit("it has another name than runs have")
    for name, text in _mapping(files, "files").items():
        if name not in kept.FILES or not isinstance(text, str):
            raise Unfit(f"runs have no file `{_shown(name)}`")
    record = _record(run_id, _json(files, "run.json"))
    _json(files, "job.json")
    _json(files, "plan.json")
    if not _DIGEST.fullmatch(str(_json(files, "provenance.json").get("code"))):
        raise Unfit("`provenance.json` does not name its code")
    tasks = [*_lines(files, "tasks.jsonl"), *_lines(files, "finally.jsonl")]
    numbers = [task.get("index") for task in tasks]
    if len(numbers) != record.tasks or numbers != list(range(len(numbers))):
        raise Unfit("its tasks are not those of its record")
    for task in tasks:
        _check(task, _TASK, "task")
    return record, {name: text for name, text in files.items() if name != "run.json"}


def _record(run_id: str, facts: Mapping[str, Any]) -> RunRecord:
    _check(facts, _RECORD, "run.json")
    try:
        record = RunRecord(**facts)
    except TypeError:
        raise Unfit("`run.json` is of another version of Fairway") from None
    if record.id != run_id:
        raise Unfit(f"it is a copy of {_shown(record.id)}")
    return record


def _check_run(found: Mapping[str, Any], run: Run) -> None:
    if found.get("state") is not None:
        state = _mapping(found["state"], "state")
        _check(state, _STATUS, "state")
        if state.get("state") not in _STATES:
            raise Unfit(f"no run is `{_shown(state.get('state'))}`")
    elif "state" not in found:
        raise Unfit("it has no `state`")
    for name, status in _mapping(found.get("tasks"), "tasks").items():
        _require_task(name, run)
        _check(_mapping(status, name), _STATUS, f"task {name}")
        if "state" not in status:
            raise Unfit(f"task {name} has no state")
    for name, piece in _mapping(found.get("logs"), "logs").items():
        _require_task(name, run)
        _check(_mapping(piece, "log"), {"offset": _is_count, "data": _is_text}, "log")
        if not {"offset", "data"} <= piece.keys():
            raise Unfit(f"the log of {name} is not one")
    if not isinstance(found.get("more"), bool):
        raise Unfit("it does not say whether there is more")


def _require_task(name: str, run: Run) -> None:
    """Unfit where the run has no task, and no setup, of that name."""
    is_number = name.isascii() and name.isdecimal() and str(int(name[:9])) == name
    if not (name == "setup" or (is_number and int(name) < run.record.tasks)):
        raise Unfit(f"{run.id} has no task `{_shown(name)}`")


def _check(facts: Mapping[str, Any], shape: Mapping[str, Callable[[Any], bool]], what: str) -> None:
    """Unfit where a value that is there is not of its shape."""
    for name, is_right in shape.items():
        if facts.get(name) is not None and not is_right(facts[name]):
            raise Unfit(f"`{name}` of {what} is {_shown(facts[name])}")


def _mapping(value: Any, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise Unfit(f"{_shown(what)} is not a mapping")
    return value


def _json(files: Mapping[str, str], name: str) -> dict[str, Any]:
    if name not in files:
        raise Unfit(f"`{name}` is missing")
    return _parsed(files[name], name)


def _lines(files: Mapping[str, str], name: str) -> list[dict[str, Any]]:
    return [_parsed(line, name) for line in files.get(name, "").split("\n") if line]


def _parsed(text: str, name: str) -> dict[str, Any]:
    try:
        return _mapping(json.loads(text), name)
    except (ValueError, RecursionError):
        raise Unfit(f"`{name}` is not JSON") from None


def _shown(value: object) -> str:
    return printable(str(value)[:40])


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_plain(value: Any) -> bool:
    return isinstance(value, str) and value.isprintable()


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 53


def _is_count(value: Any) -> bool:
    return _is_whole(value) and bool(value >= 0)


def _is_moment(value: Any) -> bool:
    return (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and math.isfinite(value)
        and 0 <= value < _LAST_SECOND
    )


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool)


def _is_counts(value: Any) -> bool:
    return isinstance(value, dict) and all(_is_count(count) for count in value.values())


def _is_texts(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(text, str) for text in value.values())


_STATUS = {
    "state": _is_plain,
    "reason": _is_text,
    "node": _is_text,
    "started": _is_moment,
    "ended": _is_moment,
    "exit_code": _is_whole,
    "attempt": _is_whole,
    "submission": _is_count,
    "log_size": _is_count,
    "timed_out": _is_flag,
    "tasks": _is_counts,
}
_RECORD = {
    "id": _is_plain,
    "name": _is_plain,
    "target": _is_plain,
    "created": _is_moment,
    "tasks": _is_count,
    "job_file": _is_text,
    "fairway": _is_plain,
    "metrics": _is_texts,
    "engine": _is_plain,
}
_TASK = {
    "params": lambda value: isinstance(value, dict),
    "nodes": _is_count,
    "processes_per_node": _is_count,
}
