"""From a job file and a target to a run that has started."""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

import fairway_core
from fairway_agent import cpu_limit
from fairway_core.checks import check_job
from fairway_core.findings import Finding, Severity, UserError
from fairway_runner.engines.capabilities import capabilities, ineffective, require, runs_here
from fairway_runner.engines.engine import engine_for
from fairway_runner.engines.refusals import Refused
from fairway_runner.engines.shares import require_gpus, require_share
from fairway_runner.jobs import mounts
from fairway_runner.jobs.job_fields import changed_numbers
from fairway_runner.jobs.launcher import Launchers, render_release, render_setup
from fairway_runner.jobs.project_sandbox import known_git, require_code
from fairway_runner.jobs.rendering import ParamUse
from fairway_runner.runs.steps import require_one_job
from fairway_runner.runs.store import Run, RunRecord, RunStore
from fairway_runner.submit import snapshot as code
from fairway_runner.submit.budget import budget_of
from fairway_runner.submit.chain import Chain
from fairway_runner.submit.listing import unlisted, with_files
from fairway_runner.submit.plan import Plan
from fairway_runner.submit.provenance import provenance
from fairway_runner.submit.resume import cut_off, earlier, forgetting, repeat
from fairway_runner.submit.secret_values import require_readable, secret_values
from fairway_runner.targets.lookup import default_notify

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from pathlib import Path

    from fairway_core.notifications import Notify
    from fairway_core.target import Target
    from fairway_runner.engines.engine import Engine
    from fairway_runner.jobs.job import Finally, Job
    from fairway_runner.jobs.job_file import JobFile
    from fairway_runner.runs.folder import Content


def submit(job_file: JobFile, target: Target, store: RunStore, *, run_id: str | None = None) -> Run:
    """Starts the job on the target and returns its run.

    Nothing is written before all that can be wrong with the job was looked at.
    """
    return start(prepare(job_file, target, store, run_id=run_id), store)


@dataclass
class Prepared:
    """A job that is ready to start: all its tasks are rendered, nothing is written yet.

    `job` is that of the first task; `secrets` are values that must not be written; `warnings`
    are what a person should hear of. `others` are the same job for those targets that are tried
    where this one refuses it, and `passed` for those that were passed over.
    """

    job: Job
    plan: Plan
    code: code.Code
    files: dict[str, str]
    record: RunRecord
    secrets: Mapping[str, str]
    warnings: Sequence[Finding] = ()
    others: Sequence[Prepared] = ()
    passed: Sequence[Prepared] = ()

    def all_files(self) -> dict[str, Content]:
        """The files of the run's folder, by their paths."""
        return {**self.files, **self.plan.files(self.job)}


def start(prepared: Prepared, store: RunStore, *, forgets: type[UserError] = Refused) -> Run:
    """Records a prepared job as a run and starts it; nothing is left of a run whose start raises
    what `forgets` says."""
    plan = prepared.plan
    if before := earlier(store, plan.run, prepared.files):
        return repeat(before, forgets)
    if runs_here(plan.engine.target.engine):
        plan.directory = store.folder / plan.run / "code"
    with store.recording(), code.in_use(store.base / "code"):
        snapshot = code.snapshot(prepared.code, store.base / "code")
        files = prepared.all_files()
        return launch(
            *(store, plan.engine, prepared.record, files, snapshot, prepared.secrets),
            forgets=forgets,
        )


def launch(
    store: RunStore,
    engine: Engine,
    record: RunRecord,
    files: Mapping[str, Content],
    snapshot: Path,
    secrets: Mapping[str, str],
    *,
    forgets: type[UserError] = Refused,
) -> Run:
    """Records a run with its `files` and starts it on the code's `snapshot`.

    UserError where nothing can be written or the start raises what `forgets` says, which leaves
    nothing behind, and where the target cannot be reached, with the command that goes on.
    """
    run, lock = store.create(record, files)
    try:
        with forgetting(run, forgets):
            engine.start(run, lock, snapshot, secrets)
    except UserError as error:
        raise cut_off(run, error) from None
    return run


def prepare(
    job_file: JobFile,
    target: Target,
    store: RunStore,
    *,
    run_id: str | None = None,
    code_folder: Path | None = None,
    asks: bool = True,
    coming: Collection[str] = (),
    before: Sequence[Run] = (),
    conditions: Mapping[str, str | list[int]] | None = None,
    copies: bool = True,
) -> Prepared:
    """Looks at all that can be wrong with a job and renders its tasks; UserError where
    something is.

    `run_id` is one of the caller's choice. `code_folder` holds the code in place of what the
    job says. `asks` is whether the target's engine is asked, who may ask the target; `coming` are
    the runs that have not begun, whose outputs are not looked for; those `before` it go on, and it
    waits on its target until they have ended as the `conditions` say by their IDs, or well. Without
    `copies` nothing that lies elsewhere is brought here, and what is prepared is not to be started.
    """
    job_file = with_files(job_file, target, asks=asks)
    tasks = job_file.tasks()
    first = next(tasks)
    job = _with_receiver(first.resolve(target), target)
    require(job, target)
    location = lambda name: job_file.document.location(("secrets", name))  # noqa: E731
    require_readable(job.secrets, target, location)
    warnings = [*_checked(first, job, target), *unlisted(job_file)]
    warnings += changed_numbers(job_file.document, job.params)
    warnings += ineffective(job, target, job_file.document)
    engine = engine_for(target)
    if asks and copies:
        engine.begin_connection()
    launchers = Launchers()
    source = launchers.of(first, job).source
    folder = code_folder or _code_folder(job_file, job)
    going = [each.id for each in before]
    kept = Chain.of(job_file, job, engine, store, coming, going, copies=copies, asks=asks)
    before = [*before, *(require_one_job(store.find(each)) for each in job.after)]
    plan = Plan(
        run=run_id or store.new_id(job.name),
        engine=engine,
        directory=folder,
        inputs=mounts.input_directories(first, job, target),
        staged=[*mounts.staged_inputs(first, job, target), *kept.staged],
        chained=kept.chained,
        after=[engine.predecessor(each) for each in before],
        conditions=conditions or {},
    )
    use = ParamUse(job_file)
    with cpu_limit.prepared():
        for task in chain([first], tasks):
            resolved = job if task is first else task.resolve(target)
            use.require(task, launchers.of(task, resolved))
            script = launchers.render(task, resolved, target)
            require_share(resolved, target, task.document)
            plan.add(resolved, script, mounts.checkpoint_directory(task, resolved, target))
    if job.setup is not None:
        plan.set_up_with(job, render_setup(job))
    if job.release_command is not None:
        plan.release_with(job, render_release(job))
    if job.finally_ is not None:
        last = _last_task(job, job.finally_)
        plan.end_with(last, launchers.render(first, last, target))
    require_gpus(job, target, first.document)
    with job_file.document.locating():
        plan.budget = budget_of(job, target)
    plan.needs = launchers.needs()
    if asks:
        engine.require(job, plan.needs)
    secrets = secret_values(job.secrets, os.environ, location)
    # What was sent or kept here was chosen where it came from.
    gitignore = job.code.gitignore if code_folder is None and known_git() is None else False
    with job_file.document.locating():
        collected = code.collect(folder, job.code.exclude, gitignore=gitignore)
    files = {
        "job.yaml": job_file.document.text.source,
        "job.json": job.model_dump_json(indent=1, by_alias=True),
        "target.json": json.dumps(target.record(), indent=1),
        **_provenance(job_file, folder, source, collected.digest, kept.facts),
    }
    sweep = job_file.sweep()
    whole = job.model_copy(update={"sweep": sweep.section if sweep else None})
    record = _record(job_file, job, target, plan)
    warnings += collected.warnings
    return Prepared(whole, plan, collected, files, record, secrets, warnings)


def _with_receiver(job: Job, target: Target) -> Job:
    """The job with the project's default of who hears of it, where its target sends word."""
    if job.notify is None and capabilities(target.engine).notifies:
        default = _told_there(default_notify(), target)
        # A default with a secret is for jobs that have the secret.
        if default is not None and set(default.secrets.values()) <= set(job.secrets):
            job = job.model_copy(update={"notify": default})
    for field, name in job.notify.secrets.items() if job.notify else ():
        if name not in job.secrets:
            message = f"`notify.{field}`: the job has no secret `{name}`"
            raise UserError.of("bad-value", message, f"add `secrets: {{{name}: keyvault:NAME}}`")
    return job


def _told_there(default: Notify | None, target: Target) -> Notify | None:
    """The default without what nobody there sees; None where nothing is left."""
    if default is None or capabilities(target.engine).tells_waiting:
        return default
    on = tuple(event for event in default.on if event != "waiting")
    return default.model_copy(update={"on": on}) if on else None


def _checked(job_file: JobFile, job: Job, target: Target) -> list[Finding]:
    """What the checks warn of; UserError with what they refuse."""
    found = check_job(job.model_dump(exclude_unset=True, by_alias=True), target, job_file.document)
    if errors := [finding for finding in found if finding.severity is Severity.ERROR]:
        raise UserError(errors)
    return found


def _record(job_file: JobFile, job: Job, target: Target, plan: Plan) -> RunRecord:
    return RunRecord(
        id=plan.run,
        name=job.name,
        target=target.name,
        created=time.time(),
        tasks=len(plan.tasks) + (plan.last is not None),
        job_file=job_file.document.file,
        fairway=fairway_core.__version__,
        metrics=job.metric_patterns,
        engine=target.engine,
        tags=list(job.tags),
        note=job.note,
    )


def _last_task(job: Job, last: Finally) -> Job:
    changes = {"command": last.command, "template": "plain", "nodes": 1, "processes_per_node": 1}
    changes |= {"outputs": last.outputs, "preflight": "none", "options": {}}
    return job.model_copy(update=changes)


def _code_folder(job_file: JobFile, job: Job) -> Path:
    folder = job_file.folder / job.code.path
    if not folder.is_dir():
        location = job_file.document.location(("code", "path"))
        message = f"`code.path`: {folder} is not a folder"
        hint = "write the folder of the code relative to the job file, for example `path: src`"
        finding = Finding("bad-value", message, hint, "code.path", location=location)
        raise UserError([finding])
    require_code(folder)
    return folder


def _provenance(
    job_file: JobFile, folder: Path, template: str, digest: str, inputs: Mapping[str, Any]
) -> dict[str, str]:
    facts, diff = provenance(folder, template, digest)
    facts |= {"folder": str(job_file.folder), "set": list(job_file.assignments)}
    facts |= {"inputs": inputs} if inputs else {}
    return {"provenance.json": json.dumps(facts, indent=1), "code.diff": diff}
