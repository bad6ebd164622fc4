"""`fairway show`, `wait` and `cancel` of a server's runs."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import typer

from fairway_agent.record import FINAL_STATES, UNSUCCESSFUL_STATES
from fairway_cli.server.connection import quoted
from fairway_cli.ui.progress import print_empty
from fairway_core.findings import UserError, format_finding, printable
from fairway_runner.engines.deadline import deadline

if TYPE_CHECKING:
    from collections.abc import Callable

    from fairway_cli.server.connection import Server

_AWAY = 5
_PAUSE = 1.0  # seconds between two looks at a run that is waited for


def state_of(server: Server, run: str, *, fresh: bool = False) -> dict[str, Any]:
    """Where a run stands, by the beginning of its ID too."""
    query = [("fresh", "true")] if fresh else []
    found = server.get(f"/runs/{quoted(run)}/state", query)
    with server.understood():
        texts = {name: str(found[name]) for name in ("run_id", "target", "state")}
        code = found["exit_code"]
        if code is not None and not (type(code) is int and 0 <= code < 256):
            raise ValueError
        reason = found["reason"] and str(found["reason"])
        empty = [
            {name: str(each[name]) for name in ("run_id", "task", "output")}
            for each in found["empty_outputs"]
        ]
        return {
            **texts,
            "exit_code": code,
            "reason": reason,
            "empty_outputs": empty,
            "last_known": found["last_known"],
            "labels_ranks": found["labels_ranks"] is True,
        }


def looked_at(server: Server, run: str) -> tuple[dict[str, Any], bool]:
    """The same once its target was asked, and whether that did not answer, which is said."""
    try:
        return state_of(server, run, fresh=True), False
    except UserError as error:
        if error.exit_code != _AWAY or {each.id for each in error.findings} & _OF_SERVER:
            raise
        found = state_of(server, run)
        for finding in error.findings:
            print(format_finding(finding), file=sys.stderr)
        known = printable(str(found["last_known"]))
        print(f"{printable(found['run_id'])} is shown as last known at {known}", file=sys.stderr)
        return found, True


_OF_SERVER = frozenset({"server-away", "strange-server", "old-server"})


def show_command(server: Server, *, run: str, failed: bool, limit: int, json_: bool) -> None:
    """As `fairway show`; see there."""
    from fairway_cli.ui.runs import print_overview

    found, is_away = looked_at(server, run)
    facts = server.get(f"/runs/{quoted(found['run_id'])}")
    with server.understood():
        tasks = facts["task_list"]
        if failed:
            tasks = [task for task in tasks if task["state"] in UNSUCCESSFUL_STATES]
        if json_:
            print(json.dumps({**facts, "task_list": tasks}, indent=1))
        else:
            shown = [SimpleNamespace(is_last=task["last"], facts=task, **task) for task in tasks]
            print_overview(facts, shown, limit, lambda some: [task.facts for task in some])
    if is_away:
        raise typer.Exit(_AWAY)


def cancel_command(server: Server, *, runs: list[str], task: str | None, json_: bool) -> None:
    """As `fairway cancel`; see there."""
    facts, query = [], [] if task is None else [("task", task)]
    for run_id in [state_of(server, run)["run_id"] for run in runs]:
        fact = server.post(f"/runs/{quoted(run_id)}/cancel", None, query)
        with server.understood():
            said = f"{fact['run_id']} {fact['state']}"
            if task is not None:
                said = f"{fact['run_id']} task {task} {fact['task_state']}"
        facts.append(fact)
        if not json_:
            print(printable(said), flush=True)
    if json_:
        print(json.dumps(facts, indent=1))


def wait_command(server: Server, *, runs: list[str], timeout: str | None, json_: bool) -> None:
    """As `fairway wait`; see there."""
    from fairway_cli.commands.arguments import span

    end = None if timeout is None else time.monotonic() + span("--timeout", timeout)
    code, facts = 0, []
    for run_id in [state_of(server, run)["run_id"] for run in runs]:
        try:
            found = wait_for(server, run_id, end, timeout)
        except KeyboardInterrupt:
            raise typer.Exit(130) from None
        code = code or found["exit_code"] or 0
        names = ("run_id", "state", "exit_code", "empty_outputs")
        facts.append({name: found[name] for name in names})
        if not json_:
            print(printable(f"{found['run_id']} {found['state']}"), flush=True)
            print_empty(found["run_id"], found["empty_outputs"])
    if json_:
        print(json.dumps(facts, indent=1))
    raise typer.Exit(code)


def wait_for(
    server: Server, run_id: str, end: float | None = None, timeout: str | None = None
) -> dict[str, Any]:
    """Until the run has ended; UserError where that is not before the `end`."""
    patience, reason = Patience(), ""
    while True:
        found = patience.ask(lambda: state_of(server, run_id))
        if found is not None:
            if found["state"] in FINAL_STATES:
                return found
            now = found["reason"] or ""
            if now and now != reason:
                said = f"{run_id} is {found['state']}: {now}"
                print(printable(said), file=sys.stderr, flush=True)
            reason = now
        left = _PAUSE if end is None else end - time.monotonic()
        if left <= 0:
            state = "not heard of" if found is None else found["state"]
            message = f"{run_id} is still {state} after {timeout}"
            hint = f"it is still running; to end it: fairway cancel {run_id}"
            raise UserError.of("wait-timeout", message, hint, exit_code=_AWAY)
        time.sleep(min(_PAUSE, left))


@dataclass
class Patience:
    """Asks a server that may be away for a while, as long as `--deadline` says. It says so once."""

    answered: float = field(default_factory=time.monotonic)
    told: bool = False

    def ask(self, call: Callable[[], dict[str, Any]]) -> dict[str, Any] | None:
        """What is answered; None where nothing is. UserError where the deadline is over."""
        try:
            found = call()
        except UserError as error:
            self.missed(error)
            return None
        self.heard()
        return found

    def heard(self) -> None:
        """The server has answered."""
        self.answered, self.told = time.monotonic(), False

    def missed(self, error: UserError) -> None:
        """It has not: raises the error where it is another, or the deadline is over."""
        is_away = {each.id for each in error.findings} <= {"server-away"}
        if not is_away or time.monotonic() - self.answered >= deadline():
            raise error
        if not self.told:
            self.told = True
            said = f"{error.findings[0].message}; retrying, Ctrl-C ends it"
            print(printable(said), file=sys.stderr, flush=True)
