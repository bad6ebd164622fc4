"""An input that another run has kept: which run, task and output is meant, and that it is there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fairway_core.findings import UserError
from fairway_core.suggestions import did_you_mean
from fairway_runner.jobs.job_fields import BestInput, KeptInput
from fairway_runner.runs.folder import chosen_task, task_name
from fairway_runner.runs.kept import KeptOutput, files_of
from fairway_runner.runs.records import FINAL_STATES, read_last, read_specs
from fairway_runner.runs.view import BEST

if TYPE_CHECKING:
    from collections.abc import Collection

    from fairway_agent.plan import Chained
    from fairway_agent.task_spec import Output
    from fairway_runner.jobs.job_fields import Best
    from fairway_runner.runs.store import Run, RunStore

WHICH_BETTER = "write better: lower, or better: higher, beside the metric's name"
"""What to do where nothing says which values of a metric are better."""


def find_kept(
    name: str,
    source: KeptInput | BestInput,
    store: RunStore,
    *,
    going: Collection[str],
    brings: bool,
    asks: bool = True,
) -> tuple[KeptOutput, dict[str, Any]]:
    """What the input `name` stands for, and what is recorded of it; UserError where it is not
    there, or not yet. Of the runs that are `going` it need not be there. `brings` is whether it is
    brought to this machine where it lies elsewhere, and `asks` whether that place is asked how the
    run stands."""
    wanted = source.best if isinstance(source, BestInput) else source
    run = store.find(wanted.run)
    is_there = run.id not in going
    if is_there and not asks:
        # As far as is known here: one that goes on may have ended meanwhile.
        is_there = run.state in FINAL_STATES
    elif is_there:
        run = _ended(run, with_logs=isinstance(source, BestInput))
    task, facts = _task(run, source)
    output = wanted.output or name
    if is_there:
        _require_kept(run, task, output)
    kept = KeptOutput(run, task, output, lambda: _bring(run, kept) if brings and is_there else None)
    return kept, {"run": run.id, "task": task_name(run, task), "output": output, **facts}


def find_best(name: str, source: Best, store: RunStore) -> tuple[Chained, dict[str, Any]]:
    """What the input `name` is of a run that goes on, as its plan has it, and what is recorded of
    it: which task is the best one, is decided where the run waits. UserError where it is not known
    which metric is meant, or which value of it is better."""
    from fairway_agent import plan

    run, output = store.find(source.run), source.output or name
    metric, lower = _measure(run, source)
    best = plan.Best(metric, run.record.metrics[metric], lower)
    entry = plan.Chained(name, f"runs/{run.id}/tasks/*/outputs/{output}", best=best)
    return entry, {"run": run.id, "task": BEST, "output": output, "metric": metric}


def _ended(run: Run, *, with_logs: bool) -> Run:
    """The run, brought up to date; UserError while it may keep more."""
    run.refresh(logs=with_logs)
    if (state := run.state) not in FINAL_STATES:
        hint = f"wait for it first: fairway wait {run.id}"
        raise UserError.of("running-run", f"{run.id} has not ended: it is {state}", hint)
    return run


def _task(run: Run, source: KeptInput | BestInput) -> tuple[int, dict[str, Any]]:
    """The task that is meant; and by which metric, of the best."""
    if isinstance(source, BestInput):
        from fairway_runner.runs.results import best

        metric, lower = _measure(run, source.best)
        task, _, value = best(run, metric, lowest=lower)
        return task.index, {"metric": metric, "value": value}
    if source.task is None and run.is_sweep:
        last = run.record.tasks - run.has_last - 1
        message = f"{run.id} is a sweep of {last + 1:,} tasks"
        hint = f"choose one: `task: 0` to {last}, or `best: {{run: {run.id}, metric: NAME}}`"
        raise UserError.of("which-task", message, hint)
    return chosen_task(run, 0 if source.task is None else source.task), {}


def _measure(run: Run, source: Best) -> tuple[str, bool]:
    """The metric that decides, and whether its lowest value is the best; UserError where that is
    not known."""
    from fairway_runner.runs.results import lower_is_better, metric_name

    metric = metric_name(run, source.metric)
    if source.better is not None:
        return metric, source.better == "lower"
    return metric, lower_is_better(run, metric, WHICH_BETTER)


def _require_kept(run: Run, task: int, name: str) -> None:
    """UserError where the task does not keep such an output, or has not ended so that it does."""
    outputs = _outputs(run, task)
    called = f"task {task_name(run, task)} of {run.id}"
    if name not in outputs:
        hint = did_you_mean(name, outputs) if outputs else "give its job one: outputs: {model: {}}"
        raise UserError.of("no-output", f"{called} keeps no output `{name}`", hint)
    state = run.task_status(task, run.state).state
    when, ended = outputs[name].when, "success" if state == "succeeded" else "failure"
    if when not in ("always", ended):
        message = f"{called} has {state}, and keeps `{name}` only on {when}"
        hint = f"see its state: fairway show {run.id}"
        raise UserError.of("no-output", message, hint)


def _outputs(run: Run, task: int) -> dict[str, Output]:
    if task_name(run, task) == str(task):
        for spec in read_specs(run.folder / "tasks.jsonl"):
            if spec.index == task:
                return dict(spec.outputs)
    return {name: each for spec in read_last(run.folder) for name, each in spec.outputs.items()}


def _bring(run: Run, kept: KeptOutput) -> None:
    run.engine.collect(run, [kept.task])
    if next(files_of(kept.folder), None) is None:
        called = f"task {task_name(run, kept.task)} of {run.id}"
        hint = f"see what it has printed: fairway logs {run.id}"
        raise UserError.of("no-output", f"{called} has kept no file in `{kept.output}`", hint)
