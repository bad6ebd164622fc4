"""Runs side by side: what was set differently, and what came out."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from fairway_runner.runs.folder import begun_steps
from fairway_runner.runs.metrics import all_values, compile_patterns
from fairway_runner.runs.records import facts_in
from fairway_runner.runs.results import task_results
from fairway_runner.runs.view import iso, seconds, varying

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fairway_runner.jobs.job_fields import ParamValue
    from fairway_runner.runs.results import TaskResult
    from fairway_runner.runs.store import Run

# Fields of a job that say what else a record has, or follow from its parameters.
_LEFT_OUT = frozenset({"name", "tags", "note", "notify", "command", "params", "metrics", "sweep"})


def compare(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """A record for each task of the runs, in their order; the task of `finally:` is left out. In
    place of a run with steps stand those of its steps that have begun.

    `differs` holds the parameters and fields of the job, by their dotted paths, that are not the
    same in all of them. `metrics` holds the last, lowest and highest value of each metric that
    the task has printed. `commit` is that of the job's repository, `dirty` whether files
    differed from it. UserError for a run that cannot be read.
    """
    single = [each for run in runs for each in (begun_steps(run) or [run])]
    unique = list({run.id: run for run in single}.values())
    tasks = [(run, task) for run in unique for task in task_results(run) if not task.is_last]
    jobs = {
        run.id: {
            path: value
            for name, given in facts_in(run.folder / "job.json").items()
            if name not in _LEFT_OUT
            for path, value in _flat(name, given)
        }
        for run in unique
    }
    settings = [_settings(task, jobs[run.id]) for run, task in tasks]
    names = varying(settings) if settings else []
    origins = {run.id: facts_in(run.folder / "provenance.json").get("git") or {} for run in unique}
    records = []
    for (run, task), each in zip(tasks, settings, strict=True):
        patterns = compile_patterns(run.record.metrics)
        found = all_values(run.log(task.index), patterns) if patterns else {}
        facts = {
            "run_id": run.id,
            "task": task.index,
            "sweep": run.is_sweep,
            "name": run.record.name,
            "target": run.record.target,
            "state": task.state,
            "created": iso(run.record.created),
            "seconds": seconds(task.state, task.started, task.ended),
            "params": task.params,
            "metrics": {name: asdict(values) for name, values in found.items()},
            "commit": origins[run.id].get("commit"),
            "dirty": bool(origins[run.id].get("dirty")),
            "differs": {name: each[name] for name in names if name in each},
        }
        records.append(facts)
    return records


def _settings(task: TaskResult, job: dict[str, ParamValue]) -> dict[str, ParamValue]:
    """Returns the settings of a task: its parameters, its shape, and the fields of its job."""
    fields = {**job, "nodes": task.nodes, "processes_per_node": task.processes_per_node}
    params = {f"params.{n}" if n in fields else n: value for n, value in task.params.items()}
    return {**params, **fields, "target": task.run.record.target}


def _flat(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    """The value by its path, or where it is a mapping those in it."""
    if not isinstance(value, dict):
        yield path, value
        return
    for name, each in value.items():
        yield from _flat(f"{path}.{name}", each)
