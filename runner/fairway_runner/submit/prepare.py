"""Checks and renders a job for a target: everything that its run needs before it starts."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import field
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fairway_core
from fairway_agent import process_limits
from fairway_agent.quick import dataclass
from fairway_agent.spec import LAST, Budget, IdleGpu, RunPlan
from fairway_core.checks import check_job
from fairway_core.findings import Finding, Severity, UserError
from fairway_runner.engines import capabilities
from fairway_runner.engines.engine import Engine, engine_for
from fairway_runner.jobs.job import Metric
from fairway_runner.jobs.job_fields import BestInput, RunInput, changed_numbers
from fairway_runner.jobs.job_file import JobFile, sweeps_files
from fairway_runner.jobs.launcher import Launchers, param_use, render_once_a_node
from fairway_runner.jobs.project_files import known_git
from fairway_runner.runs.folder import require_one_job
from fairway_runner.runs.records import RunRecord
from fairway_runner.submit import run_plan
from fairway_runner.submit import snapshot as code
from fairway_runner.submit.snapshot import provenance
from fairway_runner.targets.lookup import default_notify

if TYPE_CHECKING:
    from fairway_core.target import Target
    from fairway_runner.jobs.job import Job
    from fairway_runner.jobs.sweep_models import Sweep
    from fairway_runner.runs.folder import Content
    from fairway_runner.runs.store import Run, RunStore


@dataclass
class PreparedRun:
    """A run that is ready to start: all its tasks are rendered, nothing is written yet.

    `job` has the values of the first task; `files` are the texts of its folder by name, `lines`
    those of tasks, which may be very large. `secrets` are values that must not be written. `others`
    are the same job for the targets to try if this one refuses it, and `passed` for those that were
    passed over. A workflow has `steps`, by name, and one task for each.
    """

    record: RunRecord
    job: Job
    engine: Engine
    plan: RunPlan
    code: code.Code
    files: dict[str, str]
    lines: Mapping[str, Content]
    provenance: dict[str, Any]
    secrets: Mapping[str, str] = field(default_factory=dict)
    first_script: str = ""
    warnings: Sequence[Finding] = ()
    others: Sequence[PreparedRun] = ()
    passed: Sequence[PreparedRun] = ()
    steps: Mapping[str, PreparedRun] = field(default_factory=dict)

    def all_files(self) -> dict[str, Content]:
        """Returns the files to write into the run's folder, by name."""
        origin = json.dumps(self.provenance, indent=1)
        made = {"plan.json": self.plan.text(), "provenance.json": origin}
        return {**self.files, **made, **self.lines}

    @property
    def tasks(self) -> int:
        """Number of all tasks that it starts, including those of steps."""
        return sum(each.tasks for each in self.steps.values()) or self.record.tasks

    @property
    def targets(self) -> list[Target]:
        """All targets on which some of it may run."""
        runs = self.steps.values() or (self, *self.others)
        return list({each.record.target: each.engine.target for each in runs}.values())

    @property
    def scripts(self) -> dict[str, str]:
        """Script of the first task, under "", or that of each step under its name."""
        made = self.steps or {"": self}
        return {name: each.first_script for name, each in made.items()}

    def sign(self, by: dict[str, str]) -> None:
        """Records the name and id of its submitter."""
        self.provenance |= {"user": by["name"], "by": by}


def prepare(
    job_file: JobFile,
    target: Target,
    store: RunStore,
    *,
    run_id: str | None = None,
    code_folder: Path | None = None,
    asks: bool = True,
    copies: bool = True,
    coming: Collection[str] = (),
    before: Sequence[Run] = (),
    conditions: Mapping[str, str | list[int]] | None = None,
) -> PreparedRun:
    """Checks a job and renders its tasks. Raises UserError if anything is wrong with it.
    `code_folder` replaces the job's own; with `asks` the target is asked. Outputs of runs that are
    `coming`, which have not begun, are not looked for. The runs `before` it are active: on its
    target it waits until they have ended as the `conditions` say by their IDs, or else
    successfully. Without `copies` nothing is downloaded from elsewhere, and the result must not be
    started."""
    job_file, unlisted = _with_listed_files(job_file, target, asks=asks)
    tasks = job_file.tasks()
    first = next(tasks)
    job, warnings = _checked(job_file, first, target, store.folder)
    engine, launchers = engine_for(target), Launchers(target)
    if asks and copies:
        engine.begin_connection()
    template = launchers.of(first, job).source
    folder = code_folder or code.folder_of(job_file, job.code.path)
    run_id = run_id or store.new_id(job.name)
    inputs = run_plan.inputs_of(first, job, target)
    if any(isinstance(each, RunInput | BestInput) for each in job.inputs.values()):
        from fairway_runner.submit.run_inputs import add_kept

        known = {"coming": coming, "active": [each.id for each in before]}
        add_kept(inputs, job_file, job, engine, store, run_id, **known, copies=copies, asks=asks)
    with job_file.document.locating("after"):
        named = [require_one_job(store.find(each)) for each in job.after]
    after = tuple(engine.predecessor(each) for each in (*before, *named))
    points = _task_lines(job_file, job, chain([first], tasks), engine, launchers)
    lines = {"tasks.jsonl": points, **_lines_around(job, first, engine, launchers)}
    budget = _within_limits(job, first, engine, launchers.needs(), asks=asks)
    secrets, collected = _secrets_and_code(job_file, job, folder, is_kept=code_folder is not None)
    sweep = swept.section if (swept := job_file.sweep) else None
    is_here = capabilities.runs_here(target.engine)
    directory = store.folder / run_id / "code" if is_here else folder
    plan = _plan(
        *(job, sweep, inputs, engine),
        run=run_id,
        directory=str(directory),
        tasks=len(points) + (job.finally_ is not None),
        after=after,
        conditions=conditions or {},
        needs=tuple(launchers.needs()),
        max_cost=budget,
    )
    origin, diff = _origin(job_file, inputs, folder, template, collected.digest)
    return PreparedRun(
        record=_record(plan, job, job_file, target),
        job=job.model_copy(update={"sweep": sweep}),
        engine=engine,
        plan=plan,
        code=collected,
        files={
            "job.yaml": job_file.document.text.source,
            "job.json": job.model_dump_json(indent=1, by_alias=True),
            "target.json": json.dumps(target.record(), indent=1),
            "code.diff": diff,
        },
        lines=lines,
        provenance=origin,
        secrets=secrets,
        first_script=str(json.loads(points.first)["script"]),
        warnings=[*warnings, *unlisted, *collected.warnings],
    )


def _with_listed_files(
    job_file: JobFile, target: Target, *, asks: bool
) -> tuple[JobFile, list[Finding]]:
    """Returns the job file with the input files that its sweep uses, and the inputs not listed."""
    if not sweeps_files(job_file.document.data):
        return job_file, []
    from fairway_runner.submit.run_inputs import resolve_files, unlisted_warnings

    job_file = resolve_files(job_file, target, asks=asks)
    return job_file, unlisted_warnings(job_file)


def _checked(
    job_file: JobFile, first: JobFile, target: Target, runs: Path
) -> tuple[Job, list[Finding]]:
    """Returns the first task's job, and warnings. Raises UserError if the target cannot run it."""
    with job_file.document.locating():
        job = _with_receiver(first.resolve(target), target)
        capabilities.require(job, target)
        capabilities.require_mountable(job, target, runs)
        run_plan.require_readable(job.secrets, target)
    found = check_job(job.model_dump(exclude_unset=True, by_alias=True), target, first.document)
    if errors := [finding for finding in found if finding.severity is Severity.ERROR]:
        raise UserError(errors)
    changed = changed_numbers(job_file.document, job.params)
    return job, [*found, *changed, *capabilities.ineffective(job, target, job_file.document)]


def _lines_around(
    job: Job, first: JobFile, engine: Engine, launchers: Launchers
) -> dict[str, Content]:
    lines: dict[str, Content] = {}
    alone = job.model_copy(update={"outputs": {}, "nodes": 1, "gpus": None, "cores": None})
    for name, command, when in (
        ("setup", job.setup_command, "before the tasks"),
        ("release", job.release_command, "when the run has ended"),
    ):
        if command:
            script = render_once_a_node(when, command, job)
            lines[f"{name}.jsonl"] = run_plan.task_line(name, alone, engine, script)
    if job.finally_ is not None:
        own = {"command": job.finally_.command, "outputs": job.finally_.outputs, "options": {}}
        usual = {"template": "plain", "nodes": 1, "processes_per_node": 1, "preflight": "none"}
        last = job.model_copy(update={**own, **usual})
        script = launchers.render(first, last)
        lines["finally.jsonl"] = run_plan.task_line(LAST, last, engine, script)
    return lines


def _within_limits(
    job: Job, first: JobFile, engine: Engine, needs: Sequence[str], *, asks: bool
) -> Budget | None:
    """Returns the limit on its cost. Raises UserError if the target lacks what the job needs."""
    capabilities.require_gpus(job, engine.target, first.document)
    with first.document.locating():
        budget = run_plan.budget_of(job, engine.target)
    if asks:
        engine.require(job, needs)
    return budget


def _secrets_and_code(
    job_file: JobFile, job: Job, folder: Path, *, is_kept: bool
) -> tuple[dict[str, str], code.Code]:
    # Uploaded or stored code was already filtered at its source.
    gitignore = False if is_kept or known_git() is not None else job.code.gitignore
    with job_file.document.locating():
        secrets = run_plan.secret_values(job.secrets, os.environ)
        return secrets, code.collect(folder, job.code.exclude, gitignore=gitignore)


def _plan(
    job: Job, sweep: Sweep | None, inputs: run_plan.Inputs, engine: Engine, **own: Any
) -> RunPlan:
    """Returns the plan with the job's fields and the run's `own`."""
    idle = job.idle_gpu
    return RunPlan(
        max_parallel=sweep.max_parallel if sweep else None,
        retries=job.failures_allowed,
        retry_limits=job.retry_limits,
        timeout=job.timeout,
        max_duration=job.max_duration,
        idle_gpu=IdleGpu(idle.below, idle.for_, idle.then) if idle else None,
        sample_every=job.sample_every,
        signal=job.checkpoint.signal,
        grace=job.checkpoint.grace,
        secrets=tuple(job.secrets),
        notify=run_plan.receiver_of(job.notify),
        environment={**engine.environment(), **inputs.environment},
        staged=tuple(inputs.staged),
        run_inputs=tuple(inputs.run_inputs),
        **own,
    )


def _origin(
    job_file: JobFile, inputs: run_plan.Inputs, folder: Path, template: str, digest: str
) -> tuple[dict[str, Any], str]:
    """Returns the provenance, and the diff between the code in the folder and its commit."""
    facts, diff = provenance(folder, template, digest)
    facts |= {"folder": str(job_file.folder), "set": list(job_file.assignments)}
    return facts | ({"inputs": inputs.facts} if inputs.facts else {}), diff


def _record(plan: RunPlan, job: Job, job_file: JobFile, target: Target) -> RunRecord:
    return RunRecord(
        id=plan.run,
        name=job.name,
        target=target.name,
        created=time.time(),
        tasks=plan.tasks,
        job_file=job_file.document.file,
        fairway=fairway_core.__version__,
        metrics={
            name: metric.pattern if isinstance(metric, Metric) else metric
            for name, metric in job.metrics.items()
        },
        engine=target.engine,
        tags=list(job.tags),
        note=job.note,
    )


def _task_lines(
    job_file: JobFile, job: Job, tasks: Iterable[JobFile], engine: Engine, launchers: Launchers
) -> run_plan.TaskLines:
    lines, use, target = run_plan.TaskLines(), param_use(job_file), engine.target
    with process_limits.prepared():
        for index, task in enumerate(tasks):
            own = task.resolve(target) if index else job
            script = launchers.render(task, own, use)
            capabilities.require_share(own, target, task.document)
            checkpoint = run_plan.checkpoint_directory(task, own, target)
            lines.append(run_plan.task_line(index, own, engine, script, checkpoint))
    return lines


def _with_receiver(job: Job, target: Target) -> Job:
    """Returns the job with the project's default receiver of notifications, if its target sends
    any. Raises UserError if the job lacks a secret that its receiver names."""
    if job.notify is None:
        default = default_notify()
        if default is not None and not capabilities.capabilities(target.engine).tells_waiting:
            on = tuple(event for event in default.on if event != "waiting")
            default = default.model_copy(update={"on": on}) if on else None
        # A default with a secret only applies to jobs that have the secret.
        if default is not None and set(default.secrets.values()) <= set(job.secrets):
            job = job.model_copy(update={"notify": default})
    for key, name in job.notify.secrets.items() if job.notify else ():
        if name not in job.secrets:
            source = f"env:{name}" if capabilities.runs_here(target.engine) else "keyvault:NAME"
            path, hint = f"notify.{key}", f"add `secrets: {{{name}: {source}}}`"
            message = f"`{path}`: the job has no secret `{name}`"
            raise UserError([Finding("bad-value", message, hint, path)])
    return job
