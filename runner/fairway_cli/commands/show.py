"""`fairway show`: one run and its tasks."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fairway_cli.commands.arguments import DeadlineOption, JsonOption, RunArgument

if TYPE_CHECKING:
    from fairway_runner.runs.accounting import Use
    from fairway_runner.runs.results import TaskResult
    from fairway_runner.runs.store import Run


def command(
    run: RunArgument,
    failed: Annotated[
        bool, typer.Option("--failed", help="Only the tasks that did not succeed.")
    ] = False,
    limit: Annotated[
        int, typer.Option("--limit", "-n", min=0, help="Show at most N tasks; 0 for all.")
    ] = 50,
    json_: JsonOption = False,
    _deadline: DeadlineOption = None,
) -> None:
    """Show a run: its state, its tasks and its files.

    If its target does not answer, what is known locally is shown, and the exit code is 5.
    """
    from fairway_cli.ui.away import EXIT_CODE, is_away
    from fairway_runner.runs.facts import run_facts, setup_facts, task_facts
    from fairway_runner.runs.store import RunStore

    found = RunStore.here().find(run)
    away = is_away(found, lambda: _look(found))
    facts = run_facts(found)
    setup = setup_facts(found, facts["state"])
    every = found.tasks
    tasks = [task for task in every if not failed or task.state in ("failed", "cancelled", "lost")]
    use, currency = _use(found, every)
    if json_:
        from fairway_cli.ui.run_costs import use_facts

        more: dict[str, Any] = {"folder": str(found.folder), "setup": setup}
        more |= {"cost": use_facts(use, currency), "task_list": task_facts(tasks)}
        more["use"] = _figures(found) or None
        print(json.dumps({**facts, **more}, indent=1))
    else:
        from fairway_cli.ui.overview import print_overview

        spent = {"cost": _cost(use, currency), "use": _figures(found)}
        print_overview(found, facts, setup, tasks, limit, spent)
    if away:
        raise typer.Exit(EXIT_CODE)


def _look(run: Run) -> None:
    run.refresh(logs=bool(run.record.metrics))
    run.engine.bring_figures(run)


def _figures(run: Run) -> str:
    """How it has used its nodes, in words; "" where they were not sampled."""
    from fairway_runner.runs.figures import figures, in_words

    return in_words([sample for samples in figures(run).values() for sample in samples])


def _use(run: Run, tasks: list[TaskResult]) -> tuple[Use, str]:
    """What the run has held, at the prices that are at hand, and their currency."""
    from fairway_core.cost.cache import prices_at_hand
    from fairway_runner.runs.accounting import use_of

    prices = prices_at_hand()
    return use_of(run, tasks, prices), prices.currency


def _cost(use: Use, currency: str) -> str:
    from fairway_cli.ui.run_costs import cost_line

    return cost_line(use, currency) if use.is_priced and use.node_hours else ""
