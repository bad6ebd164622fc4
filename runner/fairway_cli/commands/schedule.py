"""`fairway schedule`: a job that comes back by itself."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from fairway_cli.commands.arguments import JsonOption, SetOption, TargetOption, span

if TYPE_CHECKING:
    from fairway_runner.engines.batch.engine import BatchEngine
    from fairway_runner.engines.batch.recurrence import Recurrence

_ACTIONS = {
    "disable": "starts no more runs for now",
    "enable": "starts runs again",
    "delete": "is no more; what its runs kept is still there",
}


def command(
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="JOB | list | disable|enable|delete NAME…",
            help="A job file; or what to do, and with which schedules.",
        ),
    ],
    target: TargetOption,
    every: Annotated[
        str | None, typer.Option("--every", metavar="SPAN", help="How often: 30m, 6h, 1d.")
    ] = None,
    cron: Annotated[
        str | None,
        typer.Option("--cron", metavar="LINE", help="When, in UTC: '30 2 * * *' or '@daily'."),
    ] = None,
    name: Annotated[
        str | None, typer.Option("--name", help="What the schedule is called; runs are NAME-1, …")
    ] = None,
    set_: SetOption = None,
    json_: JsonOption = False,
) -> None:
    """Start a job again and again without this machine, or list, disable, enable, delete that.

    Only targets with the engine `batch` have schedules: of jobs with one task on one node.
    """
    engine = _engine(target)
    if words == ["list"]:
        _list(engine, json_=json_)
    elif words[0] in _ACTIONS and len(words) > 1:
        from fairway_runner.engines.batch.schedules import act

        for each in words[1:]:
            act(engine, words[0], each)
            print(f"{each} {_ACTIONS[words[0]]}", flush=True)
    else:
        _create(engine, words, _recurrence(every, cron), name, set_ or [], json_=json_)


def _engine(name: str) -> BatchEngine:
    from fairway_runner.engines.engine import engine_for, unsupported
    from fairway_runner.targets.lookup import find_target

    target = find_target(name)
    engine = engine_for(target)
    if target.engine != "batch":
        raise unsupported(engine, "start runs by itself")
    from fairway_runner.engines.batch.engine import BatchEngine

    assert isinstance(engine, BatchEngine), "the engine is that of its target"
    return engine


def _recurrence(every: str | None, cron: str | None) -> Recurrence:
    from datetime import UTC, datetime

    from fairway_core.findings import UserError
    from fairway_runner.engines.batch import recurrence

    if (every is None) == (cron is None):
        raise UserError.of("no-time", "say when it runs", "--every 6h, or --cron '30 2 * * *'")
    if cron is not None:
        return recurrence.cron(cron, datetime.now(UTC))
    return recurrence.every(span("--every", every or ""))


def _create(
    engine: BatchEngine,
    words: list[str],
    recurrence: Recurrence,
    name: str | None,
    set_: list[str],
    *,
    json_: bool,
) -> None:
    from fairway_core.findings import UserError
    from fairway_runner.engines.batch.schedules import create
    from fairway_runner.jobs.job_file import load_job
    from fairway_runner.runs.store import RunStore
    from fairway_runner.submit.submission import prepare

    if len(words) != 1:
        raise UserError.of("no-job", "say one job file", "fairway schedule JOB --every 6h")
    job = load_job(words[0], set_)
    prepared = prepare(job, engine.target, RunStore.here(), run_id=name)
    made = create(engine, prepared, recurrence)
    if json_:
        print(json.dumps({"schedule": made, **recurrence.wire()}))
        return
    print(f"{made} runs on {engine.target.name}, and needs this machine no more")
    print(f"  its runs: fairway list --target {engine.target.name}")
    print(f"  its end:  fairway schedule delete {made} --target {engine.target.name}")


def _list(engine: BatchEngine, *, json_: bool) -> None:
    from dataclasses import asdict

    from fairway_runner.engines.batch.schedules import all_schedules

    found = all_schedules(engine)
    if json_:
        print(json.dumps([asdict(each) for each in found], indent=1))
        return
    if not found:
        print(f"{engine.target.name} has no schedules")
        return
    from fairway_cli.ui.columns import columns

    rows = [(each.name, each.state, each.interval, each.next_run, each.last_run) for each in found]
    print(columns(("SCHEDULE", "STATE", "EVERY", "NEXT", "LAST RUN"), rows))
