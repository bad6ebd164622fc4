"""The page on which a job is written, checked as one types, and submitted."""

from __future__ import annotations

import os
import re
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlencode

from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from fairway_core.documents import text_of
from fairway_core.findings import Finding, UserError
from fairway_runner.jobs.project_sandbox import NEVER
from fairway_runner.jobs.templates import all_templates, template_facts
from fairway_runner.runs.query import Wanted, select
from fairway_runner.submit.rerun import submitted
from fairway_runner.targets.lookup import all_targets
from fairway_web.acting import checking, reading, submitting
from fairway_web.html import fragment, page
from fairway_web.steering import usable
from fairway_web.submitting import UNNAMED, Asked

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from starlette.requests import Request

    from fairway_web.project import Refresher, Runs
    from fairway_web.submitting import Submitting

_FIELDS = ("job", "file", "run", "set", "target", "tags", "note", "once")
_MOST_FILES = 200  # job files that are offered
_MOST_RUNS = 20
_MOST_LOOKED_AT = 5_000  # files of the project, to find those of jobs
_A_JOB = re.compile(rb"^(command|steps):", re.MULTILINE)
_ONCE = re.compile(r"[a-z0-9]{6}", re.ASCII)


class SubmitPage:
    """The handlers, over the runs of one project."""

    def __init__(self, runs: Runs, refresher: Refresher, submitting: Submitting) -> None:
        self._runs = runs
        self._refresher = refresher
        self._submitting = submitting

    def routes(self) -> list[Route]:
        """What is shown, and what its buttons call."""
        return [
            Route("/submit", self.show),
            Route("/submit", self.act, methods=["POST"]),
            Route("/submit/check", self.check, methods=["POST"]),
        ]

    async def show(self, request: Request) -> Response:
        """The form, filled from a template, a file of the project, or a run."""
        chosen = request.query_params.get("from", "template:plain")
        once = request.query_params.get("once", "")
        if not _ONCE.fullmatch(once):
            # In the address, so that going back to it submits no second run.
            query = urlencode({"from": chosen, "once": self._once()})
            return RedirectResponse(f"/submit?{query}", 303)
        fields = {**await reading(self._begun, chosen), "once": once}
        return await self._page(fields, chosen=chosen)

    async def act(self, request: Request) -> Response:
        """Submits the job, or with the button `check` only looks at it."""
        form = await _form(request)
        fields = self._fields(form)
        try:
            asked = await checking(self._asked, fields, form)
            if form.get("action") == "check":
                return await self._page(fields, await checking(self._submitting.check, asked))
            run, _ = await submitting(self._submitting.submit, asked)
        except UserError as error:
            found = list(error.findings)
            if found[0].id == "taken-run-id":
                fields, found = {**fields, "once": self._once()}, [_sent_before(asked.run_id)]
            return await self._page(fields, findings=found, status=422)
        self._refresher.watch()
        return RedirectResponse(f"/runs/{run.id}", 303)

    async def check(self, request: Request) -> Response:
        """What is said of the job while somebody types."""
        form = await _form(request)
        try:
            asked = await checking(self._asked, self._fields(form), form)
            asked = asked.model_copy(update={"offline": True})
            checked = await checking(self._submitting.check, asked)
        except UserError as error:
            return fragment("submit.html.j2", findings=error.findings, checked=None)
        return fragment("submit.html.j2", findings=(), checked=checked)

    async def _page(
        self,
        fields: Mapping[str, str],
        checked: Mapping[str, Any] | None = None,
        *,
        findings: list[Finding] | None = None,
        chosen: str = "",
        status: int = 200,
    ) -> Response:
        found = findings or []
        facts = await reading(self._choices)
        return page(
            "submit.html.j2",
            status,
            title="Submit",
            fields=fields,
            findings=found,
            checked=checked,
            chosen=chosen,
            is_many=any(each.id == "many-tasks" for each in found),
            **facts,
        )

    def _begun(self, chosen: str) -> dict[str, str]:
        kind, _, name = chosen.partition(":")
        fields = dict.fromkeys(_FIELDS, "")
        if kind == "run":
            run = self._runs.find(name)
            was = submitted(run)
            lines = _lines_of(was.assignments)
            begun = {"run": run.id, "job": was.text, "set": lines, "target": run.record.target}
        elif kind == "file":
            begun = {"file": name, "job": text_of(self._submitting.inside(name))}
        else:
            begun = {"file": UNNAMED, "job": template_facts(name, Path.cwd())["job"]}
        return {**fields, **begun}

    def _choices(self) -> dict[str, Any]:
        """From what a job can be begun, and where it can run."""
        latest = select(self._runs, Wanted(), _MOST_RUNS).runs
        return {
            "templates": list(all_templates(Path.cwd())),
            "files": list(islice(_job_files(self._runs.base.parent), _MOST_FILES)),
            "runs": [run.id for run, _ in reversed(latest)],
            "targets": usable(all_targets()),
        }

    def _fields(self, form: Mapping[str, str]) -> dict[str, str]:
        fields = {name: form.get(name, "") for name in _FIELDS}
        return fields if _ONCE.fullmatch(fields["once"]) else {**fields, "once": self._once()}

    def _asked(self, fields: Mapping[str, str], form: Mapping[str, str]) -> Asked:
        asked = Asked(
            job=fields["job"],
            file=None if fields["run"] else fields["file"] or None,
            run=fields["run"] or None,
            set=_assignments_in(fields["set"]),
            target=tuple(fields["target"].replace(",", " ").split()),
            tags=tuple(fields["tags"].replace(",", " ").split()),
            note=fields["note"] or None,
            yes=form.get("yes") == "yes",
        )
        run_id = f"{self._submitting.name(asked)}-{fields['once']}"
        return asked.model_copy(update={"run_id": run_id})

    def _once(self) -> str:
        """What tells one submission from others, however often its button is pressed."""
        return self._runs.new_id("x").rpartition("-")[2]


def _lines_of(assignments: Sequence[str]) -> str:
    """Each a line for a person to edit; further lines of one with several begin with a space."""
    return "\n".join(each.replace("\n", "\n ") for each in assignments)


def _assignments_in(text: str) -> tuple[str, ...]:
    found: list[str] = []
    for line in text.replace("\r\n", "\n").split("\n"):
        if found and line.startswith(" "):
            found[-1] += "\n" + line[1:]
        elif line.strip():
            found.append(line)
    return tuple(found)


def _sent_before(run_id: str | None) -> Finding:
    message = f"{run_id} was submitted from this page, with another job"
    return Finding("taken-run-id", message, "press Submit again to start this one as a new run")


def _job_files(root: Path) -> Iterator[str]:
    """The job files of a project, by their paths in it."""
    looked_at = 0
    for parent, folders, names in os.walk(root):
        folders[:] = sorted(each for each in folders if each not in NEVER and each[0] != ".")
        for name in sorted(names):
            looked_at += 1
            if looked_at > _MOST_LOOKED_AT:
                return
            path = Path(parent, name)
            if path.suffix in (".yaml", ".yml") and _is_job(path):
                yield path.relative_to(root).as_posix()


def _is_job(path: Path) -> bool:
    try:
        if not path.is_file():
            return False
        with path.open("rb") as file:
            return _A_JOB.search(file.read(1 << 16)) is not None
    except OSError:
        return False


async def _form(request: Request) -> dict[str, str]:
    text = (await request.body()).decode("utf-8", "replace")
    found = parse_qs(text, keep_blank_values=True)
    # Browsers send the lines of a text with the ends of another system.
    return {name: values[0].replace("\r\n", "\n") for name, values in found.items()}
