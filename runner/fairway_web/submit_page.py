"""Page for writing a job, which is checked while one types, and submitting it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from starlette.responses import RedirectResponse, Response

from fairway_core.documents import text_of
from fairway_core.findings import Finding, UserError
from fairway_runner.jobs.project_files import NEVER
from fairway_runner.jobs.templates import all_templates, template_facts
from fairway_runner.runs.query import RunFilter, select
from fairway_runner.submit.rerun import submitted
from fairway_runner.targets.lookup import all_targets
from fairway_web import submissions
from fairway_web.actions import usable_targets
from fairway_web.pages import form_of, fragment, page
from fairway_web.roles import route
from fairway_web.submissions import UNNAMED, Asked, job_name, project_file
from fairway_web.threads import Site, checking, reading, site_of, submitting

if TYPE_CHECKING:
    from starlette.requests import Request

_FIELDS = ("job", "file", "run", "set", "target", "tags", "note", "once")
_MOST_FILES = 200  # job files to choose from
_MOST_RUNS = 20
_MOST_LOOKED_AT = 5_000  # files of the project that are searched for jobs
_A_JOB = re.compile(rb"^(command|steps):", re.MULTILINE)
_ONCE = re.compile(r"[a-z0-9]{6}", re.ASCII)


async def submit_page(request: Request) -> Response:
    """Renders the form, filled from a template, a file of the project, or a run."""
    site = site_of(request)
    chosen = request.query_params.get("from", "template:plain")
    once = request.query_params.get("once", "")
    if not _ONCE.fullmatch(once):
        # In the address, so that going back and submitting again starts no second run.
        query = urlencode({"from": chosen, "once": _new_once(site)})
        return RedirectResponse(f"/submit?{query}", 303)
    return await _page(site, {**await reading(_begun, site, chosen), "once": once}, chosen=chosen)


async def submit(request: Request) -> Response:
    """Submits the job, or with the button `check` only checks it."""
    site, form = site_of(request), await form_of(request)
    fields = _fields(site, form)
    try:
        asked = await checking(_asked, fields, form)
        if form.get("action") == ["check"]:
            return await _page(site, fields, await checking(submissions.check, site.runs, asked))
        run, _ = await submitting(submissions.submit, site.runs, asked)
    except UserError as error:
        found = list(error.findings)
        if found[0].id == "taken-run-id":
            message = f"{asked.run_id} was submitted from this page, with another job"
            hint = "press Submit again to start this one as a new run"
            fields["once"], found = _new_once(site), [Finding("taken-run-id", message, hint)]
        return await _page(site, fields, findings=found, status=422)
    site.refresher.watch()
    return RedirectResponse(f"/runs/{run.id}", 303)


async def check(request: Request) -> Response:
    """Returns the findings about the job while somebody types."""
    site, form = site_of(request), await form_of(request)
    try:
        asked = await checking(_asked, _fields(site, form), form)
        asked = asked.model_copy(update={"offline": True})
        checked = await checking(submissions.check, site.runs, asked)
    except UserError as error:
        return fragment("submit.html.j2", findings=error.findings, checked=None)
    return fragment("submit.html.j2", findings=(), checked=checked)


SUBMIT_PAGES = [
    route("submit", "/submit", submit_page),
    route("submit", "/submit", submit, "POST"),
    route("submit", "/submit/check", check, "POST"),
]


async def _page(
    site: Site,
    fields: Mapping[str, str],
    checked: Mapping[str, Any] | None = None,
    *,
    findings: Sequence[Finding] = (),
    chosen: str = "",
    status: int = 200,
) -> Response:
    facts = await reading(_choices, site)
    return page(
        "submit.html.j2",
        status,
        title="Submit",
        fields=fields,
        findings=findings,
        checked=checked,
        chosen=chosen,
        is_many=any(each.id == "many-tasks" for each in findings),
        **facts,
    )


def _begun(site: Site, chosen: str) -> dict[str, str]:
    kind, _, name = chosen.partition(":")
    if kind == "run":
        run = site.runs.find(name)
        was = submitted(run)
        # One assignment per line for editing; continuation lines are indented.
        lines = "\n".join(each.replace("\n", "\n ") for each in was.assignments)
        begun = {"run": run.id, "job": was.text, "set": lines, "target": run.record.target}
    elif kind == "file":
        begun = {"file": name, "job": text_of(project_file(site.runs, name))}
    else:
        begun = {"file": UNNAMED, "job": template_facts(name, Path.cwd())["job"]}
    return {**dict.fromkeys(_FIELDS, ""), **begun}


def _choices(site: Site) -> dict[str, Any]:
    latest = select(site.runs, RunFilter(), _MOST_RUNS).runs
    return {
        "templates": list(all_templates(Path.cwd())),
        "files": list(islice(_job_files(site.runs.base.parent), _MOST_FILES)),
        "runs": [run.id for run, _ in reversed(latest)],
        "targets": usable_targets(all_targets()),
    }


def _fields(site: Site, form: Mapping[str, Sequence[str]]) -> dict[str, str]:
    fields = {name: form.get(name, [""])[0] for name in _FIELDS}
    return fields if _ONCE.fullmatch(fields["once"]) else {**fields, "once": _new_once(site)}


def _asked(fields: Mapping[str, str], form: Mapping[str, Sequence[str]]) -> Asked:
    assignments: list[str] = []
    for line in fields["set"].split("\n"):
        if assignments and line.startswith(" "):
            assignments[-1] += "\n" + line[1:]
        elif line.strip():
            assignments.append(line)
    asked = Asked(
        job=fields["job"],
        file=None if fields["run"] else fields["file"] or None,
        run=fields["run"] or None,
        set=tuple(assignments),
        target=tuple(fields["target"].replace(",", " ").split()),
        tags=tuple(fields["tags"].replace(",", " ").split()),
        note=fields["note"] or None,
        yes=form.get("yes") == ["yes"],
    )
    return asked.model_copy(update={"run_id": f"{job_name(asked)}-{fields['once']}"})


def _new_once(site: Site) -> str:
    """Returns a mark that identifies a submission, however often its button is pressed."""
    return site.runs.new_id("x").rpartition("-")[2]


def _job_files(root: Path) -> Iterator[str]:
    """Yields the job files among the first 5,000 files of a project, by their paths in it."""
    looked_at = 0
    for parent, folders, names in os.walk(root):
        folders[:] = sorted(each for each in folders if each not in NEVER and each[0] != ".")
        for name in sorted(names):
            looked_at += 1
            if looked_at > _MOST_LOOKED_AT:
                return
            path = Path(parent, name)
            with suppress(OSError):
                if path.suffix in (".yaml", ".yml") and path.is_file():
                    with path.open("rb") as file:
                        if _A_JOB.search(file.read(1 << 16)):
                            yield path.relative_to(root).as_posix()
