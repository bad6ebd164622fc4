"""Jobs that are checked and submitted on this server.

A job is checked in another process with limited time and memory, because its YAML, its sweep and
its templates come from other people. That process submits it too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairway_core.documents import Document, Model, text_of
from fairway_core.findings import Finding, UserError
from fairway_core.yaml_text import parse_yaml, unfit_character
from fairway_runner.jobs.job import JOB_NAME
from fairway_runner.jobs.job_file import JobFile, job_of_text
from fairway_runner.jobs.project_files import is_code_of, restricted_to, uploaded_code
from fairway_runner.runs.store import Run, RunStore
from fairway_runner.submit import submission
from fairway_runner.submit.rerun import Submitted, prepare_again, submitted
from fairway_runner.targets.lookup import find_target
from fairway_runner.worker import look_at_job, remove_limits
from fairway_web.actions import require_targets
from fairway_web.code_upload import Uploads
from fairway_web.roles import RequestContext, audited, by, in_context, is_allowed, request_context
from fairway_web.runs import Runs, located_facts

if TYPE_CHECKING:
    from fairway_core.target import Target
    from fairway_runner.submit.prepare import PreparedRun

UNNAMED = "job.yaml"
"""Path of a job that was sent without a file: in the project's folder."""
_LONGEST_NAME = 1024


class Asked(Model):
    """A job that somebody asks to be checked or submitted."""

    job: str | None = None
    """The text of the job file; by default the content of `file`."""
    file: str | None = None
    """Path of the job file in the project; its folder holds the code."""
    code: str | None = None
    """Code that was sent, in place of the project's: its name, as `/code` answered it. `file` is
    then only the name of the job file in findings."""
    run: str | None = None
    """An earlier run, in place of `file`: its code runs again, with its own job or `job`."""
    set: tuple[str, ...] = ()
    """Assignments `KEY=VALUE` that change fields of the job."""
    target: tuple[str, ...] = ()
    """The targets to run on, in place of the job's."""
    run_id: str | None = None
    """The ID of the run. The same ID again starts no second run."""
    tags: tuple[str, ...] = ()
    note: str | None = None
    yes: bool = False
    """Also start more than 1,000 tasks."""
    offline: bool = False
    """Do not ask the target, which may then refuse the job later."""


def read_asked(body: bytes) -> Asked:
    """Parses the job of a request. Raises UserError if it is invalid, or has unknown fields."""
    try:
        data = json.loads(body)
        json.dumps(data, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        message = "the request has an unpaired surrogate"
        hint = r"write both of the pair, such as \uD83D\uDE00, or the character itself"
        raise UserError.of("bad-request", message, hint) from None
    except (ValueError, RecursionError):
        hint = 'send {"job": "TEXT OF THE FILE"}'
        raise UserError.of("bad-request", "the request is not JSON", hint) from None
    try:
        return Document(parse_yaml("{}", "request"), data).validate(Asked)
    except UserError as error:
        # Locations in a request do not help its sender.
        raise UserError([replace(each, location=None) for each in error.findings]) from None


def check(runs: Runs, asked: Asked) -> dict[str, Any]:
    """Returns tasks that would start, scripts and warnings. Raises UserError for faults."""
    return look_at_job(_check, runs.base, request_context(), asked)


def render(runs: Runs, asked: Asked) -> dict[str, Any]:
    """Returns the script of a job, as `fairway render --json` prints it."""
    return look_at_job(_render, runs.base, request_context(), asked)


def submit(runs: Runs, asked: Asked) -> tuple[Run, Sequence[Finding]]:
    """Starts a job; also returns warnings. Raises UserError if that fails."""
    about = {"run": asked.run_id or ""}
    with audited("submit", about):
        run, target, warnings = look_at_job(_submit, runs.base, request_context(), asked)
        about |= {"run": run, "target": target}
        return runs.find(run), warnings


def _check(base: Path, by: RequestContext, asked: Asked) -> dict[str, Any]:
    with _ready(base, by, asked) as ready:
        submission.find_recorded(ready, RunStore(base))
        return {
            "name": ready.record.name,
            "target": ready.record.target,
            "tasks": ready.tasks,
            "scripts": ready.scripts,
            "findings": [located_facts(each) for each in ready.warnings],
        }


def _render(base: Path, by: RequestContext, asked: Asked) -> dict[str, Any]:
    with _ready(base, by, asked) as ready:
        if ready.steps:
            hint = "`check` answers with the script of each step"
            raise UserError.of("several-steps", "this needs a single job", hint)
        facts = {"name": ready.record.name, "target": ready.record.target}
        return {**facts, "template": ready.job.template, "script": ready.first_script}


def _submit(base: Path, who: RequestContext, asked: Asked) -> tuple[str, str, Sequence[Finding]]:
    with _ready(base, who, asked, copies=True) as ready:
        if ready.tasks > submission.MANY and not asked.yes:
            raise submission.unconfirmed(ready.tasks, "send `yes: true` to start them")
        if (person := by()) is not None:
            ready.sign(person)
        remove_limits()
        run = submission.submit(ready, RunStore(base))
        return run.id, ready.record.target, ready.warnings


def job_name(asked: Asked) -> str:
    """Returns the name of a job, or a placeholder: an invalid name is reported with the rest."""
    return look_at_job(_name, asked)


def _name(asked: Asked) -> str:
    try:
        data = job_of_text(asked.job or "", UNNAMED, Path(), asked.set).document.data
    except UserError:
        return "job"
    name = data.get("name") if isinstance(data, dict) else None
    return name if isinstance(name, str) and re.fullmatch(JOB_NAME, name) else "job"


@contextmanager
def _ready(
    base: Path, who: RequestContext, asked: Asked, *, copies: bool = False
) -> Iterator[PreparedRun]:
    """Yields the job, checked in the context of its sender."""
    runs, root, code = Runs(base), base.parent, None
    options: dict[str, Any] = {"run_id": asked.run_id, "tags": asked.tags, "note": asked.note}
    options |= {"asks": not asked.offline, "copies": copies}
    with ExitStack() as stack:
        stack.enter_context(in_context(who))
        if asked.code is not None:
            code, origin = stack.enter_context(Uploads(base).unpacked(asked.code))
            stack.enter_context(uploaded_code(origin))
            root = origin.root
        if not is_allowed("here"):
            stack.enter_context(restricted_to(root))
        if asked.run is not None:
            ready, _ = stack.enter_context(prepare_again(*_again(runs, asked), **options))
        else:
            store = RunStore(base)  # a job may name an earlier run by a prefix of its ID
            job_file = _job_file(runs, asked, code)
            ready = submission.prepare_submission(job_file, store, asked.target, **options)
        require_targets(ready.targets)
        yield ready


def _job_file(runs: Runs, asked: Asked, code: Path | None) -> JobFile:
    """Returns the job that was sent, or is in the project; `code` is the folder of sent code."""
    if asked.job is None and asked.file is None and code is None:
        hint = "send one of `job`, `file` and `run`"
        raise UserError.of("bad-request", "the request names no job", hint)
    file = asked.file or UNNAMED
    if code is None:
        path = project_file(runs, file)
        text = text_of(path) if asked.job is None else asked.job
        return job_of_text(text, file, path.parent, asked.set)
    if asked.job is None:
        raise UserError.of(
            "bad-value", "`code` needs a `job`", "send the text of its file as `job`"
        )
    if len(file) > _LONGEST_NAME or unfit_character(file) or "\n" in file:
        raise UserError.of("bad-value", "`file` is not the name of a file", "call it job.yaml")
    return job_of_text(asked.job, file, code, asked.set)


def _again(runs: Runs, asked: Asked) -> tuple[Run, Submitted, Target | None]:
    run = runs.find(asked.run or "")
    for name in ("file", "code"):
        if getattr(asked, name) is not None:
            hint = "give one of them"
            raise UserError.of("bad-value", f"`run` and `{name}` cannot be combined", hint)
    if len(asked.target) > 1:
        raise UserError.of("one-target", "a rerun has one target", "name one")
    if asked.job is not None:
        edited = Submitted(asked.job, asked.set)
    else:
        was = submitted(run)
        edited = replace(was, assignments=(*was.assignments, *asked.set))
    return run, edited, find_target(asked.target[0]) if asked.target else None


def project_file(runs: Runs, file: str) -> Path:
    """Returns the path of a file of the project. Raises UserError if it lies elsewhere or in a
    folder without job files, as `.fairway`, or its folder does not exist."""
    root = runs.base.parent.resolve()
    try:
        path = (root / file).resolve()
        if is_code_of(root, path) and path != root and path.parent.is_dir():
            return path
    except (OSError, ValueError, RuntimeError):  # not a possible file name
        pass
    message = f"`file`: {file[:200]} is not a file of the project"
    raise UserError([Finding("bad-path", message, f"give its path from {root}")])
