"""Inputs of a job: files that a sweep turns into points, and outputs of other runs."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from fairway_agent.access import path_below
from fairway_agent.records import section_of
from fairway_agent.spec import LAST, Best, RunOutputInput
from fairway_boot.files import AgentError
from fairway_core.findings import Finding, Severity, UserError
from fairway_core.suggestions import did_you_mean
from fairway_runner.engines.capabilities import runs_here
from fairway_runner.engines.outage import TargetUnavailable, deadline
from fairway_runner.jobs.job import Job, Metric
from fairway_runner.jobs.job_fields import Best as BestSource
from fairway_runner.jobs.job_fields import BestInput, RunInput
from fairway_runner.jobs.job_file import JobFile, sweeps_files
from fairway_runner.jobs.project_files import require_code, walk
from fairway_runner.jobs.steps import NamedStep, inputs_of_runs
from fairway_runner.runs.folder import chosen_task, require_one_job
from fairway_runner.runs.metrics import setting_of
from fairway_runner.runs.output_files import RunOutput, files_of
from fairway_runner.runs.records import FINAL_STATES, read_last, read_specs
from fairway_runner.runs.results import best, lower_is_better, metric_name
from fairway_runner.runs.view import BEST
from fairway_runner.submit.run_plan import Inputs, below_mount, blobs_of

if TYPE_CHECKING:
    from fairway_core.target import Target
    from fairway_core.yaml_text import DataPath
    from fairway_runner.engines.engine import Engine
    from fairway_runner.runs.store import Run, RunStore

WHICH_BETTER = "write better: lower, or better: higher, beside the metric's name"
"""Hint if it is unknown which values of a metric are better."""


class OutputMissing(UserError):
    """Error for an output that an ended run has not kept: no later try will find it."""


def add_kept(
    found: Inputs,
    job_file: JobFile,
    job: Job,
    engine: Engine,
    store: RunStore,
    run_id: str,
    *,
    coming: Collection[str],
    active: Collection[str],
    copies: bool,
    asks: bool,
) -> None:
    """Adds the outputs of other runs to the inputs, except those of runs that are `coming`. Raises
    UserError at its line for a missing one; outputs of the `active` runs appear when they end. With
    `copies` those on another target are downloaded, without which nothing can start; with `asks`
    the targets of other runs are asked for their states."""
    for name, source in job.inputs.items():
        if not isinstance(source, RunInput | BestInput):
            continue
        run = (source.best if isinstance(source, BestInput) else source).run
        if run in coming:
            continue
        with _located(job_file, name):
            if isinstance(source, BestInput) and run in active:
                # Where the run waits, the best task is chosen.
                other, output = store.find(run), source.best.output or name
                metric, lower = _measure(other, source.best)
                choice = Best(metric, other.record.metrics[metric], lower)
                path = f"runs/{other.id}/tasks/*/outputs/{output}"
                found.run_inputs.append(RunOutputInput(name, path, best=choice))
                facts = {"run": other.id, "task": BEST, "output": output, "metric": metric}
                found.facts[name] = facts
                continue
            kept, found.facts[name] = find_run_output(
                *(name, source, store), active=active, brings=copies, asks=asks
            )
            place = engine.input_from(run_id, name, kept)
            if isinstance(place, RunOutputInput):
                found.run_inputs.append(place)
            else:
                found.staged.append(place)


@contextmanager
def _located(job_file: JobFile, name: str) -> Iterator[None]:
    try:
        yield
    except UserError as error:
        document = job_file.document
        path, location = f"inputs.{name}", document.location(document.set_below(("inputs", name)))
        found = [
            replace(each, path=path, location=location) if each.location is None else each
            for each in error.findings
        ]
        may_come = isinstance(error, TargetUnavailable) or error.exit_code != 2
        may_come = may_come or error.findings[0].id == "running-run"
        raise (error.with_findings(found) if may_come else OutputMissing(found)) from None


def find_run_output(
    name: str,
    source: RunInput | BestInput,
    store: RunStore,
    *,
    active: Collection[str],
    brings: bool,
    asks: bool = True,
) -> tuple[RunOutput, dict[str, Any]]:
    """Resolves the input `name` to an output, with the facts to record. Raises UserError if it does
    not exist, unless the run is `active`. `brings` copies it here, `asks` asks its target."""
    wanted = source.best if isinstance(source, BestInput) else source
    run = store.find(wanted.run)
    is_there = run.id not in active
    if is_there and not asks:
        # As last recorded: a running run may have ended meanwhile.
        is_there = run.state in FINAL_STATES
    elif is_there:
        run.refresh(logs=isinstance(source, BestInput))
        if (state := run.state) not in FINAL_STATES:
            hint = f"wait for it first: fairway wait {run.id}"
            raise UserError.of("running-run", f"{run.id} has not ended: it is {state}", hint)
    task, facts = _task(run, source)
    output = wanted.output or name

    def bring() -> None:
        if brings and is_there:
            run.engine.collect(run, [task])
            _require_files(run, kept)

    kept = RunOutput(run, task, output, bring)
    if is_there:
        _require_kept(run, task, output)
        if runs_here(run.record.engine):
            _require_files(run, kept)
    return kept, {"run": run.id, "task": run.task_name(task), "output": output, **facts}


def _task(run: Run, source: RunInput | BestInput) -> tuple[int, dict[str, Any]]:
    """Returns the task that the input means, and the metric if that is the best one."""
    if isinstance(source, BestInput):
        metric, lower = _measure(run, source.best)
        first = best(run, metric, lowest=lower)
        return first.task.index, {"metric": metric, "value": first.value}
    if source.task is None and run.is_sweep:
        last = run.record.tasks - run.has_last - 1
        message = f"{run.id} is a sweep of {last + 1:,} tasks"
        hint = f"choose one: `task: 0` to {last}, or `best: {{run: {run.id}, metric: NAME}}`"
        raise UserError.of("which-task", message, hint)
    return chosen_task(run, 0 if source.task is None else source.task), {}


def _measure(run: Run, source: BestSource) -> tuple[str, bool]:
    """Returns the metric, and True if the lowest is best. Raises UserError if unknown."""
    metric = metric_name(require_one_job(run).record.metrics, source.metric, run.id, "metric:")
    if source.better is not None:
        return metric, source.better == "lower"
    return metric, lower_is_better(run, metric, WHICH_BETTER)


def _require_kept(run: Run, task: int, name: str) -> None:
    """Raises UserError if the task has no such output, or did not end in a way that keeps it."""
    own = run.task_name(task)
    specs = read_last(run.folder) if own == LAST else read_specs(run.folder / "tasks.jsonl")
    outputs = next((spec.outputs for spec in specs if spec.name == own), {})
    called = f"task {own} of {run.id}"
    if name not in outputs:
        hint = did_you_mean(name, outputs) if outputs else "give its job one: outputs: {model: {}}"
        raise UserError.of("no-output", f"{called} keeps no output `{name}`", hint)
    state = run.task_status(task, run.state).state
    when, ended = outputs[name].when, "success" if state == "succeeded" else "failure"
    if when not in ("always", ended):
        message = f"{called} has {state}, and keeps `{name}` only on {when}"
        raise UserError.of("no-output", message, f"see its state: fairway show {run.id}")


def _require_files(run: Run, kept: RunOutput) -> None:
    """Raises UserError if the output has no file on this machine."""
    if next(files_of(kept.folder), None) is None:
        called = f"task {run.task_name(kept.task)} of {run.id}"
        hint = f"see what it has printed: fairway logs {run.id}"
        raise UserError.of("no-output", f"{called} has kept no file in `{kept.output}`", hint)


def missing_outputs(
    step: NamedStep, runs: Mapping[str, str], jobs: Mapping[str, Job]
) -> Iterator[Finding]:
    """Yields findings for inputs from a step without such an output, or of an unclear task; `runs`
    and `jobs` are those of all steps."""
    steps = {run: name for name, run in runs.items()}
    for name, value in inputs_of_runs(step.document):
        other = steps.get(str(value.get("best", value).get("run")))
        wrong = _wrong(name, value, other, jobs[other]) if other is not None else None
        if wrong is not None:
            path = step.document.set_below(("inputs", name))
            found = step.document.finding("bad-steps", path, *wrong)
            yield replace(found, path=f"steps.{step.name}.{found.path}")


def _wrong(name: str, value: Mapping[str, Any], other: str, job: Job) -> tuple[str, str] | None:
    """Returns the error of one input, and a hint; None if there is none."""
    wanted = value.get("best", value)
    last = wanted.get("task") == "finally"
    outputs = (job.finally_.outputs if job.finally_ else {}) if last else job.outputs
    output = str(wanted.get("output") or name)
    if output not in outputs:
        hint = did_you_mean(output, outputs) or f"give it one: outputs: {{{output}: {{}}}}"
        return f"the step `{other}` keeps no output `{output}`", hint
    if "best" not in value:
        return None
    try:
        metric = metric_name(job.metrics, wanted.get("metric"), f"the step `{other}`", "metric:")
    except UserError as error:
        return error.findings[0].message, error.findings[0].hint
    given = job.metrics[metric]
    setting = {"better": given.better} if isinstance(given, Metric) else None
    if wanted.get("better") is None and setting_of(metric, setting).lower is None:
        return f"it is not known whether lower or higher `{metric}` is better", WHICH_BETTER
    return None


def resolve_files(job_file: JobFile, target: Target, *, asks: bool = True) -> JobFile:
    """Returns the job file with the files of the inputs that its sweep uses, or unchanged if it
    uses none. Unless one `asks`, remote targets are not asked: a single point stands for all.
    Raises UserError at its line for an input that is not staged from storage."""
    if not sweeps_files(job_file.document.data) or (sweep := job_file.sweep) is None:
        return job_file
    known, asks = section_of(job_file.document.data, "inputs"), asks or runs_here(target.engine)
    listed = {
        name: tuple(_names(job_file, name, path, target)) if asks else None
        for name, path in {name: path for path, name in sweep.inputs()}.items()
        if name in known  # the sweep reports missing ones
    }
    return replace(job_file, listed=listed)


def unlisted_warnings(job_file: JobFile) -> list[Finding]:
    """Returns warnings about inputs whose files have not been listed."""
    return [
        Finding(
            "unlisted-files",
            f"each file of the input `{name}` will be a task; they are listed at submission",
            f"see them now: fairway sweep {job_file.document.file} --target NAME",
            severity=Severity.WARNING,
        )
        for name, names in job_file.listed.items()
        if names is None
    ]


def _names(job_file: JobFile, name: str, path: DataPath, target: Target) -> Iterator[str]:
    source, dotted = job_file.field(("inputs", name), target), ".".join(map(str, path))
    blobs = source.get("from") if isinstance(source, dict) else None
    if not isinstance(blobs, str) or blobs == "run":
        message = f"the files of the input `{name}` are not known before the job runs"
        hint = f"stage it from storage: {name}: {{from: CONTAINER:PATH}}"
        hint += f"\nor share them among tasks: shards: {{input: {name}, of: 8}}"
        raise job_file.document.error("bad-sweep", path, f"`{dotted}`: {message}", hint)
    if not runs_here(target.engine):
        yield from _blobs(*blobs_of(job_file, name, blobs, target), target)
        return
    folder = below_mount(job_file, ("inputs", name, "from"), blobs, target)
    require_code(folder)
    if folder.is_file():
        yield folder.name
        return
    try:
        yield from (each.path for each in walk(folder) if each.is_file)
    except OSError as error:
        message = f"{error.filename}: {error.strerror}"
        raise job_file.document.error(
            "bad-sweep", path, f"`{dotted}`: {message}", "make it readable, or remove it"
        ) from None


def _blobs(container: str, path: str, target: Target) -> Iterator[str]:
    from fairway_runner.engines.azure_storage import Storage

    for blob in Storage(target, deadline()).blobs(container, path):
        try:
            name = path_below(str(blob.name), path)
        except AgentError as fault:
            raise UserError.of("bad-input", str(fault), str(fault.record["hint"])) from None
        if name is not None:
            yield name
