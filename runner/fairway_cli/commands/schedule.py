"""`fairway schedule`: jobs that run on a recurring schedule."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from typing import Annotated

from typer import Argument, Option, Typer

from fairway_cli.commands import arguments
from fairway_core.findings import UserError, each_of
from fairway_core.light_fields import UNITS
from fairway_runner.quantities import span

schedule = Typer(
    add_completion=False, no_args_is_help=True, help="Run a job on a recurring schedule."
)


@schedule.command()
def create(
    job: arguments.JobArgument,
    target: arguments.TargetOption,
    every: Annotated[str | None, Option(metavar="SPAN", help="How often: 30m, 6h, 1d.")] = None,
    cron: Annotated[
        str | None, Option(metavar="LINE", help="When, in UTC: '30 2 * * *' or '@daily'.")
    ] = None,
    name: Annotated[str | None, Option(help="Its name; its runs are NAME-7k2m9p-1, …")] = None,
    set_: arguments.SetOption = None,
    json_: arguments.JsonOption = False,
) -> None:
    """Schedule a job; its runs start without this machine.

    Only targets with the engine `batch` have schedules, for jobs with one task on one node.
    """
    from fairway_runner.engines import schedules as times
    from fairway_runner.jobs.job_file import load_job
    from fairway_runner.submit.prepare import prepare
    from fairway_runner.submit.submission import require_run_id

    if name is not None:
        require_run_id(f"{name}-7k2m9p-1000000")  # a run's after two years of one a minute
    engine = arguments.engine_of(target)
    schedules = engine.schedules()
    if (every is None) == (cron is None):
        message = "no time is given" if cron is None else "--every and --cron cannot be combined"
        raise UserError.of("no-time", message, "use --every 6h, or --cron '30 2 * * *'")
    if cron is None:
        recurrence = times.every(span("--every", every or ""))
    else:
        recurrence = times.cron(cron, datetime.now(UTC))
    store = arguments.run_store()
    run_id = None if name is None else store.new_id(name)
    prepared = prepare(load_job(job, set_ or []), engine.target, store, run_id=run_id)
    run = prepared.record.id
    name = name or run
    schedules.create(prepared, recurrence, name)
    if json_:
        print(json.dumps({"schedule": name, "run": run, **recurrence.wire()}))
        return
    print(f"{name} runs on {target}, and does not need this machine")
    print(f"  its runs: {run}-1, …: fairway list --target {target}")
    print(f"  end it:   fairway schedule delete {name} --target {target}")


@schedule.command("list")
def list_(target: arguments.TargetOption, json_: arguments.JsonOption = False) -> None:
    """List the schedules of a target."""
    from dataclasses import asdict

    found = arguments.engine_of(target).schedules().all()
    if json_:
        print(json.dumps([asdict(each) for each in found], indent=1))
        return
    if not found:
        print(f"{target} has no schedules")
        return
    from fairway_cli.ui.columns import columns
    from fairway_runner.engines.outage import clock

    rows, names = [], [each.name for each in found]
    for each in found:
        then = each.next_run and clock(datetime.fromisoformat(each.next_run).timestamp())
        name = each.name if names.count(each.name) == 1 else each.run
        rows.append((name, each.state, _every(each.interval), then, each.last_run))
    print(columns(("SCHEDULE", "STATE", "EVERY", "NEXT", "LAST RUN"), rows))


def _every(interval: str) -> str:
    """Formats Batch's interval as `--every` takes it; another program's may stay as it is.

    >>> _every("PT10080M"), _every("PT1H30M"), _every("P1D"), _every("P1W"), _every("PT")
    ('7d', '90m', '1d', 'P1W', 'PT')
    """
    parts = re.fullmatch(r"P(?=.*\d)(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)S)?)?", interval)
    if not parts:
        return interval
    counts = zip("dhms", parts.groups(), strict=True)
    seconds = sum(UNITS[unit] * int(count or 0) for unit, count in counts)
    unit = next(unit for unit in "dhms" if seconds % UNITS[unit] == 0)
    return f"{seconds // UNITS[unit]:g}{unit}"


def _add(action: str, done: str, help_: str) -> None:
    def act(
        names: Annotated[list[str], Argument(metavar="NAME…", help="Schedules.")],
        target: arguments.TargetOption,
        json_: arguments.JsonOption = False,
    ) -> None:
        schedules = arguments.engine_of(target).schedules()
        facts = []

        def act_on(name: str) -> None:
            for run in schedules.act(action, name):
                facts.append({"schedule": name, "run": run, "action": action})
                if not json_:
                    print(f"{name}: {run} {done}", flush=True)

        try:
            each_of(names, act_on)
        finally:
            if json_ and facts:
                print(json.dumps(facts, indent=1))

    schedule.command(action, help=help_)(act)


_add("disable", "is disabled", "Stop schedules from starting runs, for now.")
_add("enable", "is enabled", "Let disabled schedules start runs again.")
_add(
    "delete",
    "is deleted; the files of its runs stay",
    "Delete schedules; the files of their runs stay.",
)
