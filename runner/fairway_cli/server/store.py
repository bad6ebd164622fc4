"""Runs of a server, for commands that know only the run store: a run's records on the server are
copied into a folder here, and read there as usual."""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import string
import sys
import tempfile
from dataclasses import field, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path, PurePosixPath
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar, cast
from urllib.parse import parse_qsl

import typer

from fairway_agent.quick import dataclass
from fairway_boot.files import NO_ANSWER, write_bytes
from fairway_cli.ending import warn
from fairway_cli.server.client import TOKEN, Address, Sent, Server, found_beside, found_in, quoted
from fairway_core.findings import Finding, UserError, printable
from fairway_runner.engines import outage
from fairway_runner.engines.engine import no_progress
from fairway_runner.runs.output_files import leads_out
from fairway_runner.runs.records import is_run_id
from fairway_runner.runs.store import Run, RunStore
from fairway_runner.runs.view import RunView

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager

    from fairway_agent.state_files import RunState
    from fairway_runner.engines.engine import Engine, Progress
    from fairway_runner.jobs.job_file import JobFile
    from fairway_runner.runs.folder import RunFolder
    from fairway_runner.runs.query import Column, RunFilter

_PAGE = 100  # runs in one answer of a server
_MOST_PAGES = 10_000
_MOST_BYTES = 16 << 30  # of logs, which are copied to the local disk
_RECORD = re.compile(r"(?:setup/|tasks/(?:\d{1,9}|finally)/)?[a-z]+\.(?:json|jsonl|yaml)")
_LOG = re.compile(r"setup|finally|\d{1,9}")


@dataclass
class Mirror:
    """Copies of a server's records of runs, in a folder here."""

    server: Server
    base: Path
    _since: dict[str, int] = field(default_factory=dict)
    facts: dict[str, dict[str, Any]] = field(default_factory=dict)
    _size: int = 0

    def pull(self, run: str, *, fresh: bool = False, active: bool = False) -> str:
        """Copies the records of a run that changed since the last call, and returns the run's full
        ID. With `fresh` the server asks the run's target first."""
        flags = {"fresh": fresh, "active": active}
        query = [(name, "true") for name, value in flags.items() if value]
        query.append(("since", str(self._since.get(run, 0))))
        found = self.server.get(f"/runs/{quoted(run)}/records", query)
        with self.server.understood():
            for run_id, facts in found["runs"].items():
                self._write(run_id, facts)
            first: str = next(iter(found["runs"]))
            self._since[first] = int(found["since"])
        return first

    def _write(self, run_id: str, facts: dict[str, Any]) -> None:
        if not is_run_id(run_id):
            raise ValueError
        self.facts[run_id] = {
            "folder": str(facts["folder"]),
            "last_known": float(facts["last_known"]),
            "logs": {name: int(size) for name, size in facts["logs"].items()},
        }
        for name, text in facts["files"].items():
            if not _RECORD.fullmatch(name):
                raise ValueError
            path = self.base / "runs" / run_id / name
            path.parent.mkdir(parents=True, exist_ok=True)
            write_bytes(path, text.encode())

    def pull_logs(self, run_id: str) -> None:
        """Copies the lines that the logs of a run got since the last call."""
        for name, size in self.facts[run_id]["logs"].items():
            if not _LOG.fullmatch(name):
                raise self.server.unexpected_answer(f"it has a log `{name[:20]}`")
            folder = Path(name) if name == "setup" else Path("tasks", name)
            path = self.base / "runs" / run_id / folder / "log.txt"
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("ab") as out:
                while (offset := out.tell()) < size:
                    query = [("task", name), ("raw", "true"), ("from", str(offset))]
                    body = self.server.answer("GET", f"/runs/{quoted(run_id)}/log", query).body
                    self._size += out.write(body)
                    if not body or self._size > _MOST_BYTES:
                        raise self.server.unexpected_answer("its answer does not end")


@dataclass(frozen=True)
class RemoteRun(Run):
    """A run of a server: a copy of its folder, and calls to the server about it."""

    MIRRORS: ClassVar[dict[Path, Mirror]] = {}

    @property
    def _mirror(self) -> Mirror:
        return self.MIRRORS[self.folder.parents[1]]

    @property
    def status(self) -> RunState:
        return self._recorded()

    @property
    def is_unsent(self) -> bool:
        """Always False: the server says so in the reason of the run's state."""
        return False

    @property
    def incomplete_submission_reason(self) -> str:
        """Always empty: the server says so in the reason of the run's state."""
        return ""

    @property
    def place(self) -> str:
        """Its folder on the server."""
        return str(self._mirror.facts[self.id]["folder"])

    @property
    def last_known(self) -> float:
        """When its target last reported its state to the server, in seconds since 1970."""
        return float(self._mirror.facts[self.id]["last_known"])

    @cached_property
    def engine(self) -> Engine:
        """The server, in place of an engine."""
        return cast("Engine", ServerEngine(self._mirror.server))

    def refresh(self, *, logs: bool = False, samples: bool = False) -> None:  # noqa: ARG002
        """Has the server ask its target, and copies its records; samples stay with the server."""
        self._mirror.pull(self.id, fresh=True)
        if logs:
            self._mirror.pull_logs(self.id)

    def follow(self, *, logs: bool = False) -> None:
        """Copies its records: the server itself advances it. One that starts again has another
        token, for which it is away until that is in the record or file that is read each time."""
        try:
            self._mirror.pull(self.id)
            if logs:
                self._mirror.pull_logs(self.id)
        except UserError as error:
            if error.findings[0].id not in ("no-token", "bad-token") or os.environ.get(TOKEN):
                raise
            raise outage.TargetUnavailable(error.findings, exit_code=5) from None

    def cancel(self, task: str | int | None = None) -> None:
        """Cancels it, or one task, and waits for the end."""
        query = [] if task is None else [("task", str(task))]
        self._mirror.server.post(f"/runs/{quoted(self.id)}/cancel", None, query)
        self._mirror.pull(self.id)

    def await_lock(self) -> None:
        """Does nothing: no process here watches over the run."""


@dataclass
class ServerEngine:
    """The part of an engine that commands need, through calls of the server."""

    server: Server
    deadline: float = field(default_factory=outage.deadline)
    pause: ClassVar[float] = 0.5

    def within(self, seconds: float) -> AbstractContextManager[None]:
        """Limits calls in the block to these seconds, but to no fewer than `outage.LEAST`."""
        return outage.limited(seconds)

    def collect(self, run: RunFolder, tasks: list[int], arrived: Progress = no_progress) -> None:
        """Copies the outputs of these tasks; `arrived` gets the number of files, and of all."""
        server, path = self.server, f"/runs/{quoted(run.id)}/outputs"
        names = {run.task_name(index): run.task_folder(index) for index in tasks}
        wanted: list[tuple[Path, Sequence[str], str | None, int]] = []
        count = total = 0
        while True:
            found = server.get(path, [("from", str(count))])
            with server.understood():
                for each in found:
                    task, *parts = PurePosixPath(each["path"]).parts
                    if not parts or ".." in parts or task == "/":
                        raise ValueError
                    link = str(each["link"]) if each.get("link") else None
                    mode = int(each.get("mode") or "600", 8) & 0o755 | 0o400
                    if task in names:
                        wanted.append((names[task] / "outputs", (task, *parts), link, mode))
            count, total = count + len(found), total + 1
            if not found:
                break
            if total > _MOST_PAGES:
                raise server.unexpected_answer("its answer does not end")
        for number, (folder, name, link, mode) in enumerate(wanted, 1):
            file = folder.joinpath(*name[1:])
            # A file must not be written elsewhere through a link.
            places = [file] if link is None else [file.parent, file.parent / link]
            if any(leads_out(each, folder) for each in places):
                raise server.unexpected_answer(f"its output {file.name} leads elsewhere")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.unlink(missing_ok=True)
            if link is not None:
                file.symlink_to(link)
            else:
                # Within the umask, which also keeps others out.
                descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
                with os.fdopen(descriptor, "wb") as out:
                    server.download("/".join([path, *map(quoted, name)]), out)
            arrived(number, len(wanted))


@dataclass(frozen=True)
class RemoteStore(RunStore):
    """The runs of a server, copied below `base` on demand."""

    mirror: Mirror

    @classmethod
    def at(cls, url: str) -> RemoteStore:
        """Returns the store of the server at a URL. Raises UserError for an invalid one."""
        server = Server(Address.of(url))
        base = Path(tempfile.mkdtemp(prefix="fairway-")).resolve()
        RemoteRun.MIRRORS[base] = mirror = Mirror(server, base)
        return cls(base, mirror)

    def close(self) -> None:
        del RemoteRun.MIRRORS[self.base]
        shutil.rmtree(self.base, ignore_errors=True)

    def find(self, text: str, *, active: bool = False) -> RemoteRun:
        """Returns the run of that ID, or the only one whose ID begins so, or raises UserError."""
        return RemoteRun(self.folder / self.mirror.pull(text, active=active))

    def view(self, run: Run) -> RunView:
        """Returns everything that `show` prints of a run."""
        server = self.mirror.server
        facts = server.get(f"/runs/{quoted(run.id)}")
        with server.understood():
            tasks = [
                SimpleNamespace(is_last=task["last"], facts=task, **task)
                for task in facts["task_list"]
            ]
            return RunView(facts, tasks, lambda some: [task.facts for task in some])

    def listed(
        self,
        wanted: RunFilter,
        columns: Sequence[Column],
        limit: int | None = None,
        order: Column | None = None,
        *,
        descending: bool = False,
    ) -> tuple[list[dict[str, Any]], list[Finding]]:
        """Returns the facts of the wanted runs, the newest last, and findings about others."""
        from fairway_runner.runs.query import sort_by_value

        titles = [each.title for each in columns]
        asked = dict.fromkeys([*titles, *([order.title] if order is not None else [])])
        lists = {"state": wanted.states, "tag": wanted.tags}
        query = [(key, each) for key, some in lists.items() for each in some]
        # The server may be in another time zone.
        since = wanted.since and datetime.fromtimestamp(wanted.since, UTC).isoformat()
        plain = {"name": wanted.name, "target": wanted.target, "text": wanted.text, "since": since}
        query += [(key, value) for key, value in plain.items() if value]
        query += [("columns", ",".join(asked))] if asked else []
        query += [("fresh", "true")]
        runs, findings = self._pages(query, limit if order is None else None)
        with self.mirror.server.understood():
            if order is not None:
                valued = [(run["columns"][order.title], run) for run in runs]
                runs = sort_by_value(valued, descending=descending)[-limit if limit else None :]
            for run in runs:
                kept = {title: run["columns"][title] for title in titles}
                run.pop("columns", None)
                run |= {"columns": kept} if kept else {}
        return runs, findings

    def _pages(
        self, query: list[tuple[str, str]], limit: int | None
    ) -> tuple[list[dict[str, Any]], list[Finding]]:
        found: list[dict[str, Any]] = []
        findings: list[Finding] = []
        server = self.mirror.server
        query = query + ([("limit", str(min(limit, _PAGE)))] if limit else [])
        for number in range(_MOST_PAGES):
            answer = server.answer("GET", "/runs", query)
            page = server.data(answer)
            with server.understood():
                found += page
            findings = findings if number else found_beside(answer)
            # The server's link only contributes a query; the address of the next page is our own.
            address, _, kind = answer.headers.get("link", "").partition(">")
            query = parse_qsl(address.partition("?")[2]) if 'rel="next"' in kind else []
            if not page or not query or (limit and len(found) >= limit):
                return found[:limit][::-1], findings
        raise server.unexpected_answer("its answer does not end")


@dataclass(frozen=True)
class RemoteSubmission:
    """A job for a server, with the options of `fairway submit`."""

    store: RemoteStore
    job: JobFile
    target: Sequence[str]
    run_id: str | None
    tags: Sequence[str]
    note: str | None

    @property
    def server(self) -> Server:
        """The server, with the lines of the job for its findings."""
        document = self.job.document
        sent = Sent(document.file, document.text.source, self.job.assignments)
        return replace(self.store.mirror.server, sent=sent)

    def facts(self) -> dict[str, Any]:
        """Returns the body of a call for the job, after uploading its code."""
        return {
            "job": self.job.document.text.source,
            "file": self.job.document.file,
            "code": _send(self.server, self.job),
            "set": list(self.job.assignments),
            "target": list(self.target),
            "run_id": self.run_id,
            "tags": list(self.tags),
            "note": self.note,
        }

    def check(self) -> tuple[str, list[str], int, str]:
        """Prints warnings; returns name, target, and how many tasks or steps it would start."""
        facts = self.server.post("/check", self.facts())
        with self.server.understood():
            warn(*found_in(facts["findings"], self.server.sent))
            count, kind = int(facts["tasks"]), "task"
            if "" not in facts["scripts"]:
                count, kind = len(facts["scripts"]), "step"
            return str(facts["name"]), [str(facts["target"])], count, kind

    def submit(self, *, yes: bool) -> Run:
        """Starts the job, prints warnings and returns its run. Many tasks need `yes`, or
        confirmation."""
        facts = {**self.facts(), "yes": yes}
        if self.run_id is None:
            # Choose the ID here, so that repeating the request starts nothing twice.
            data = self.job.document.data
            name = data.get("name") if isinstance(data, dict) else None
            end = "".join(secrets.choice(string.ascii_lowercase + string.digits) for _ in range(6))
            facts["run_id"] = f"{name if isinstance(name, str) else 'job'}-{end}"
        try:
            return self._start(facts)
        except UserError as error:
            if not any(each.id == NO_ANSWER for each in error.findings):
                raise
            run_id = facts["run_id"]
            hint = f"submit it again with --run-id {run_id}: nothing starts twice"
            finding = Finding("cut-off-submission", f"{run_id} may have been started", hint)
            raise error.with_findings([*error.findings, finding]) from None

    def _start(self, facts: dict[str, Any]) -> Run:
        try:
            answer = self.server.answer("POST", "/runs", body=json.dumps(facts).encode())
        except UserError as error:
            if not any(each.id == "many-tasks" for each in error.findings):
                raise
            message = error.findings[0].message
            if not (sys.stdin.isatty() and sys.stderr.isatty()):
                raise UserError.of("many-tasks", message, "add --yes to start them") from None
            typer.confirm(printable(f"{message}. Start them?"), abort=True, err=True)
            body = json.dumps({**facts, "yes": True}).encode()
            answer = self.server.answer("POST", "/runs", body=body)
        warn(*found_beside(answer, self.server.sent))
        begun = self.server.data(answer)
        with self.server.understood():
            return self.store.find(str(begun["run_id"]))


def _send(server: Server, job: JobFile) -> str:
    from fairway_runner.submit.code_upload import CodeUpload, digest_of

    upload = CodeUpload.of(job)
    warn(*upload.warnings)
    names = [digest_of(piece) for piece in upload.pieces()]
    known = server.post("/code", {"pieces": names})
    with server.understood():
        code, missing = str(known["code"]), {str(each) for each in known["missing"]}
    if missing:
        for piece in upload.pieces():
            name = digest_of(piece)
            if name not in names:
                raise UserError.of("bad-code", "the code changed while it was sent", "submit again")
            if name in missing:
                server.post(f"/code/{name}", piece)
                missing.discard(name)
    return code
