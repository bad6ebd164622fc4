"""Runs of the project in the server's answers: lists, states, records, outputs."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Literal, get_args
from urllib.parse import urlencode

from pydantic import BaseModel, Field, ValidationError

from fairway_agent.quick import dataclass
from fairway_agent.spec import LAST
from fairway_core.findings import Finding, UserError, finding_facts
from fairway_core.yaml_text import unfit_character
from fairway_runner.quantities import iso, parse_moment
from fairway_runner.runs.folder import begun_steps, chosen_task
from fairway_runner.runs.output_files import empty_outputs, leads_out, walk_outputs
from fairway_runner.runs.query import Column, RunFilter, list_facts, select
from fairway_runner.runs.records import damaged, read_json, read_specs
from fairway_runner.runs.store import Run, RunStore
from fairway_runner.runs.view import run_facts

if TYPE_CHECKING:
    from starlette.datastructures import QueryParams

State = Literal["queued", "running", "succeeded", "failed", "cancelled", "lost"]
STATES = get_args(State)
MOST = 100  # runs per page
MOST_COMPARED = 200
MOST_OUTPUTS = 1000  # files per list
_MOST_FINDINGS = 8  # in a header
_LONGEST = 300


@dataclass(frozen=True)
class Runs(RunStore):
    """Runs of one project. A record is read once, and again if the file is another: a run may be
    removed and submitted again under the same id."""

    _known: dict[str, tuple[tuple[int, int], Run]] = field(
        default_factory=dict, repr=False, compare=False
    )

    def unsorted(self) -> Iterator[Run]:
        yield from filter(None, map(self._current, super().unsorted()))

    def find(self, text: str, *, active: bool = False) -> Run:
        """Returns the run with exactly that id. Raises UserError otherwise."""
        is_name = text and "/" not in text and not text.startswith(".")
        if is_name and (run := self._current(Run(self.folder / text))) is not None:
            return run
        raise UserError.of(
            "unknown-run", f"there is no run `{text[:80]}`", "list them: fairway list"
        )

    def find_prefix(self, text: str, *, active: bool = False) -> Run:
        """Returns the run with that ID, or the only one whose ID begins so; see `RunStore.find`."""
        try:
            return self.find(text)
        except UserError:
            return self.find(RunStore(self.base).find(text, active=active).id)

    def _current(self, run: Run) -> Run | None:
        """Returns the cached run, or this one; None if it does not exist."""
        try:
            found = (run.folder / "run.json").stat()
        except (OSError, ValueError):  # includes names that no file can have
            return None
        file = (found.st_ino, found.st_mtime_ns)
        known = self._known.get(run.id)
        if known is None or known[0] != file:
            self._known[run.id] = known = (file, run)
        return known[1]


class RunQuery(BaseModel):
    """Runs selected by the query of an address."""

    state: list[State] = Field([], description="the states of the runs")
    name: str | None = Field(None, description="the name of the runs")
    target: str | None = Field(None, description="the target of the runs")
    tag: list[str] = Field([], description="the tags of the runs: all of them")
    text: str = Field("", description="text in a run's ID, name, tags or note")
    since: str = Field("", description="submitted since this time, or this long ago")
    columns: str = Field("", description="more columns, as in `fairway list --columns`")
    limit: int = Field(MOST, ge=1, le=MOST, description="how many runs")
    fresh: bool = Field(default=False, description="true asks the targets first")
    before: float | None = Field(None, description="older than this time; taken from `Link`")
    behind: str | None = Field(
        None, description="of the runs of that time, only those after this one; taken from `Link`"
    )

    @classmethod
    def of(cls, query: QueryParams) -> RunQuery:
        """Parses the query of a page's address, in which a form may leave values empty. Raises
        UserError for an invalid value."""
        lists = {name: [each for each in query.getlist(name) if each] for name in ("state", "tag")}
        try:
            return cls.model_validate({name: query[name] for name in query if query[name]} | lists)
        except ValidationError as error:
            raise query_error(error.errors()) from None

    @property
    def shown(self) -> list[Column]:
        """Columns requested beside the facts of a run. Raises UserError for an unknown one."""
        return Column.listed(self.columns)


def query_error(errors: Iterable[Mapping[str, Any]]) -> UserError:
    """Returns the error for query values that pydantic does not accept."""
    hint = "GET /api/v1/openapi.json describes the values of each call"
    found = []
    for each in errors:
        places = (part for part in each["loc"] if part not in ("query", "header", "path"))
        name = next(places, "the address")
        found.append(Finding("bad-value", f"`{name}`: {each['msg']}", hint))
    return UserError(found)


@dataclass(frozen=True)
class Page:
    """Some runs as `list --json` prints them, the newest first; the query of the next page, "" for
    none; and findings about unreadable runs."""

    runs: Sequence[dict[str, Any]]
    older: str
    findings: Sequence[Finding]


def page_of(store: RunStore, query: RunQuery) -> Page:
    """Returns the runs that a query selects. Raises UserError for an invalid value."""
    columns = query.shown
    since = parse_moment("since", query.since) if query.since else None
    given = query.model_dump(include={"name", "target", "text", "before", "behind"})
    wanted = RunFilter(states=query.state, tags=query.tag, since=since, **given)
    # One more than is shown indicates that there are others.
    found = select(store, wanted, query.limit + 1)
    chosen = found.runs[-query.limit :]
    older = ""
    if len(found.runs) > query.limit:
        # Some runs of the same moment may be on the next page.
        last = chosen[0][0]
        edge = {"before": repr(last.record.created), "behind": last.id}
        kept = query.model_dump(exclude_defaults=True, exclude={"fresh"}) | edge
        older = urlencode(kept, doseq=True)
    facts = [list_facts(each, columns, found.findings) for each in reversed(chosen)]
    return Page(facts, older, found.findings)


def compared(runs: Runs, names: Sequence[str]) -> tuple[list[Run], int]:
    """Returns those runs, and how many exceed MOST_COMPARED. Raises UserError if unknown."""
    asked = list(dict.fromkeys(names))
    return [runs.find(name) for name in asked[:MOST_COMPARED]], len(asked[MOST_COMPARED:])


def state_facts(run: Run) -> dict[str, Any]:
    """Returns state and reason, the exit code after the end, and when the target last reported."""
    status, known = run.status, run_facts(run)
    return {
        "run_id": run.id,
        "target": known["target"],
        "state": status.state,
        "reason": known["reason"],
        "exit_code": run.exit_code if status.is_final else None,
        "empty_outputs": empty_outputs(run) if status.is_final else [],
        "last_known": iso(run.last_known),
    }


def located_facts(finding: Finding) -> dict[str, Any]:
    """Returns a finding for a client that has its line, with the part of it that is meant."""
    facts: dict[str, Any] = finding_facts(finding)
    return {**facts, "length": finding.location.length} if finding.location else facts


def findings_header(findings: Iterable[Finding]) -> str:
    """Returns the first few findings, in ASCII, for the header of a list."""
    short = [
        replace(each, message=each.message[:_LONGEST], hint=each.hint[:_LONGEST])
        for each in islice(findings, _MOST_FINDINGS)
    ]
    return json.dumps([located_facts(each) for each in short])


def script(run: Run, task: str) -> str:
    """Returns the script of a task, of `setup` or `finally`. Raises UserError for none."""
    if task == "setup":
        name, path = task, run.folder / "setup.jsonl"
    else:
        name = run.task_name(chosen_task(run, task))
        path = run.folder / ("finally.jsonl" if name == LAST else "tasks.jsonl")
    for spec in read_specs(path) if path.exists() else ():
        if name in (spec.name, LAST):
            return spec.script
    raise damaged(path, f"it has no task {name}")


def outputs(run: Run, start: int = 0) -> tuple[list[dict[str, Any]], bool]:
    """Returns kept files by task and path, with their sizes in bytes and octal modes, and links to
    folders with their relative targets: MOST_OUTPUTS of them from an index on, and True if there
    are more. Names that are not UTF-8 are left out."""
    found = list(islice(_output_files(run), start, start + MOST_OUTPUTS + 1))
    return found[:MOST_OUTPUTS], len(found) > MOST_OUTPUTS


def _output_files(run: Run) -> Iterator[dict[str, Any]]:
    for index in range(run.record.tasks):
        base, task = run.task_folder(index) / "outputs", run.task_name(index)
        for each in walk_outputs(base, base):
            found = {"path": f"{task}/{each.path.relative_to(base).as_posix()}"}
            if unfit_character(found["path"] + each.link):
                continue  # no name in JSON, or in an address
            if each.link:
                yield {**found, "size": 0, "link": each.link}
            elif each.is_fit:
                status = each.path.stat()
                yield {**found, "size": status.st_size, "mode": f"{status.st_mode & 0o777:o}"}


def output(run: Run, path: str) -> Path:
    """Returns the file at TASK/OUTPUT/…. Raises UserError if it is no output of the run."""
    task, *parts = PurePosixPath(path).parts or ("",)
    if parts and ".." not in parts:
        base = run.task_folder(chosen_task(run, task)) / "outputs"
        with suppress(OSError, ValueError):  # not a possible file name
            file = base.joinpath(*parts).resolve()
            if file.is_file() and not leads_out(file, base):
                return file
    message, hint = f"{run.id} has no output `{path}`", "the run's page lists them"
    raise UserError.of("unknown-output", message, hint)


# Files of a run's folder that describe the run; no others are sent.
_TASKS = ("tasks.jsonl", "setup.jsonl", "finally.jsonl")  # without the commands
_RECORDS = (
    *("run.json", "job.json", "provenance.json", "steps.json", "labels.json"),
    *("actions.jsonl", "retry.json", *_TASKS),
    *("setup/state.json", "tasks/*/state.json"),
)
# Fields of these that are needed to read logs and states.
_PARTS_OF = {
    "job.json": ("name", "template", "options", "timeout", "metrics"),
    "provenance.json": ("step",),
}
_MARGIN = 2_000_000_000  # nanoseconds: resolution of files' times


def records(run: Run, since: int) -> dict[str, Any]:
    """Returns the records of a run, and of its steps that have begun, that were written since a
    time in nanoseconds; with their logs' sizes, and the time for the next request."""
    now = time.time_ns() - _MARGIN
    return {
        "since": now,
        "runs": {each.id: _folder(each, since) for each in (run, *begun_steps(run))},
    }


def _folder(run: Run, since: int) -> dict[str, Any]:
    logs, files = {}, {}
    with suppress(FileNotFoundError):
        # A step that has just started is new to the client, but may have older files.
        if (run.folder / "run.json").stat().st_mtime_ns >= since:
            since = 0
    for path in (path for pattern in _RECORDS for path in run.folder.glob(pattern)):
        with suppress(FileNotFoundError):
            if path.is_file() and not path.is_symlink() and path.stat().st_mtime_ns >= since:
                name = path.relative_to(run.folder).as_posix()
                if name in _PARTS_OF:
                    facts = read_json(path)
                    known = {key: facts[key] for key in _PARTS_OF[name] if key in facts}
                    files[name] = json.dumps(known)
                elif name in _TASKS:
                    short = (replace(each, script="", environment={}) for each in read_specs(path))
                    files[name] = "".join(each.line() for each in short)
                else:
                    files[name] = path.read_text("utf-8", "replace")
    for path in (*run.folder.glob("tasks/*/log.txt"), run.folder / "setup" / "log.txt"):
        with suppress(FileNotFoundError):
            logs[path.parent.name] = path.stat().st_size
    # The state that this machine determines: a run whose process is gone is lost.
    files["state.json"] = json.dumps(run.status.to_json())
    place = {"folder": str(run.folder), "last_known": run.last_known}
    return {**place, "files": files, "logs": logs}
