"""`fairway wait`: until runs have ended."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Annotated

from typer import Exit, Option

from fairway_cli.commands.arguments import DeadlineOption, JsonOption, RunsArgument, span

if TYPE_CHECKING:
    from fairway_runner.runs.store import Run


def command(
    runs: RunsArgument,
    timeout: Annotated[
        str | None,
        Option(
            "--timeout",
            metavar="SPAN",
            help="Stop waiting after this long and exit with 5; the runs continue.",
        ),
    ] = None,
    json_: JsonOption = False,
    _deadline: DeadlineOption = None,
) -> None:
    """Wait until runs have ended, print their states, and exit with the first failing code.

    Standard error says why a run waits, each time that the reason changes.
    """
    from fairway_cli.server import run_store
    from fairway_cli.ui.follow import remarked
    from fairway_cli.ui.progress import print_empty
    from fairway_runner.runs.results import empty_outputs

    end = None if timeout is None else time.monotonic() + span("--timeout", timeout)
    store, code, facts = run_store(), 0, []
    for run in [store.find(name) for name in runs]:
        with remarked(run):
            _wait(run, end, timeout)
        code = code or run.exit_code
        fact = {"run_id": run.id, "state": run.state, "exit_code": run.exit_code}
        facts.append({**fact, "empty_outputs": (empty := empty_outputs(run))})
        if not json_:
            print(f"{run.id} {run.state}", flush=True)
            print_empty(run.id, empty)
    if json_:
        print(json.dumps(facts, indent=1))
    raise Exit(code)


def _wait(run: Run, end: float | None, timeout: str | None) -> None:
    """Until the run has ended; UserError where that is not before the `end`."""
    if end is None:
        run.wait()
        return
    from fairway_core.findings import UserError
    from fairway_runner.engines.outage import Absence
    from fairway_runner.runs.store import FINAL_STATES

    absence = Absence(run, run.engine.deadline)
    while True:
        left = end - time.monotonic()
        with run.engine.within(max(0.0, left)):
            absence.look(run.follow)
        if (state := run.state) in FINAL_STATES:
            return
        if left <= 0:
            message = f"{run.id} is still {state} after {timeout}"
            hint = f"it is still running; to end it: fairway cancel {run.id}"
            raise UserError.of("wait-timeout", message, hint, exit_code=5)
        time.sleep(max(0.0, min(run.engine.pause, left)))
