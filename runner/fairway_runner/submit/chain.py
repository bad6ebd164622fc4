"""Inputs that other runs have kept: found when a job is submitted, and recorded with the run."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from fairway_core.findings import UserError
from fairway_core.suggestions import did_you_mean
from fairway_runner.jobs.inputs import BestInput, KeptInput
from fairway_runner.runs.chosen import chosen_task, task_name
from fairway_runner.runs.kept import KeptOutput, files_of
from fairway_runner.runs.plans import read_last, read_specs
from fairway_runner.runs.records import FINAL_STATES

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from fairway_agent.plan import Chained, Staged
    from fairway_agent.task_spec import Output
    from fairway_runner.engines.engine import Engine
    from fairway_runner.jobs.job import Job
    from fairway_runner.jobs.job_file import JobFile
    from fairway_runner.runs.store import Run, RunStore


class NotKept(UserError):
    """The other run has ended, and has not kept what is wanted: no later try finds it."""


@dataclass
class Chain:
    """The inputs of a job that other runs have kept, as its plan has them, and by the name of each
    input which run, task and output that is. `copies` is whether those that lie on another target
    are brought to this machine; else nothing can be started by that plan. `going` is as for `of`.
    """

    chained: list[Chained] = field(default_factory=list)
    staged: list[Staged] = field(default_factory=list)
    facts: dict[str, dict[str, Any]] = field(default_factory=dict)
    copies: bool = True
    going: Collection[str] = ()

    @classmethod
    def of(
        cls,
        job_file: JobFile,
        job: Job,
        engine: Engine,
        store: RunStore,
        coming: Collection[str] = (),
        going: Collection[str] = (),
        *,
        copies: bool = True,
    ) -> Chain:
        """Looks for them, but for those of the runs that are `coming`; UserError at its line for
        one that is not there, or not yet. What the runs that are `going` keep is there once they
        have ended, and where the tasks see it."""
        found = cls(copies=copies, going=going)
        for name, source in job.inputs.items():
            if isinstance(source, KeptInput | BestInput) and _run_of(source) not in coming:
                with _located(job_file, name):
                    found._add(name, source, engine, store)
        return found

    def _add(
        self, name: str, source: KeptInput | BestInput, engine: Engine, store: RunStore
    ) -> None:
        from fairway_agent.plan import Chained

        wanted = source.best if isinstance(source, BestInput) else source
        run = store.find(wanted.run)
        if run.id not in self.going:
            run = _ended(run, with_logs=isinstance(source, BestInput))
        task, facts = _task(run, source)
        output = wanted.output or name
        self.facts[name] = {"run": run.id, "task": task_name(run, task), "output": output, **facts}
        if run.id not in self.going:
            _require_kept(run, task, output)
        kept = KeptOutput(run, task, output, lambda: self._bring(run, kept))
        entry = engine.input_from(name, kept)
        if isinstance(entry, Chained):
            self.chained.append(entry)
        else:
            self.staged.append(entry)

    def _bring(self, run: Run, kept: KeptOutput) -> None:
        if self.copies and run.id not in self.going:
            _bring(run, kept)


@contextmanager
def _located(job_file: JobFile, name: str) -> Iterator[None]:
    """What is wrong with an input is shown at its line."""
    try:
        yield
    except UserError as error:
        from fairway_runner.engines.absence import is_away

        path, place = f"inputs.{name}", job_file.document.location(("inputs", name))
        found = [
            replace(each, path=path, location=place) if each.location is None else each
            for each in error.findings
        ]
        may_come = is_away(error) or error.exit_code != 2 or error.findings[0].id == "running-run"
        kind = UserError if may_come else NotKept
        raise kind(found, exit_code=error.exit_code) from None


def _run_of(source: KeptInput | BestInput) -> str:
    """The run that is named."""
    return (source.best if isinstance(source, BestInput) else source).run


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

        lowest = None if source.best.better is None else source.best.better == "lower"
        task, metric, value = best(run, source.best.metric, lowest=lowest)
        return task.index, {"metric": metric, "value": value}
    if source.task is None and run.is_sweep:
        last = run.record.tasks - run.has_last - 1
        message = f"{run.id} is a sweep of {last + 1:,} tasks"
        hint = f"say which: `task: 0` to {last}, or `best: {{run: {run.id}, metric: NAME}}`"
        raise UserError.of("which-task", message, hint)
    return chosen_task(run, 0 if source.task is None else source.task), {}


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
        message = f"{called} has {state}, and it keeps `{name}` only on {when}"
        hint = f"see what became of it: fairway show {run.id}"
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
