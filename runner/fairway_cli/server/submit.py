"""`fairway submit` to a server: the job as text, and the pieces of code that it lacks."""

from __future__ import annotations

import json
import secrets
import string
import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import typer

from fairway_boot.files import NO_ANSWER
from fairway_cli.ending import warn
from fairway_cli.server.client import Sent, found_beside, found_in
from fairway_core.findings import Finding, UserError, printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fairway_cli.server.client import Server
    from fairway_cli.server.store import RemoteStore
    from fairway_runner.jobs.job_file import JobFile
    from fairway_runner.runs.store import Run


@dataclass(frozen=True)
class RemoteSubmission:
    """A job for a server, with the options of `fairway submit`."""

    store: RemoteStore
    job: JobFile
    settings: Sequence[str]
    target: Sequence[str]
    run_id: str | None
    tags: Sequence[str]
    note: str | None

    @property
    def server(self) -> Server:
        """The server, with the lines of the job for its findings."""
        document = self.job.document
        sent = Sent(document.file, document.text.source, tuple(self.settings))
        return replace(self.store.server, sent=sent)

    def facts(self) -> dict[str, Any]:
        """The body of a call that takes the job, whose code is sent now."""
        return {
            "job": self.job.document.text.source,
            "file": self.job.document.file,
            "code": _send(self.server, self.job),
            "set": list(self.settings),
            "target": list(self.target),
            "run_id": self.run_id,
            "tags": list(self.tags),
            "note": self.note,
        }

    def check(self) -> tuple[str, list[str], int, str]:
        """Prints what a person should hear of; its name and target, and how many it would start of
        what: tasks or steps."""
        facts = self.server.post("/check", self.facts())
        with self.server.understood():
            warn(*found_in(facts["findings"], self.server.sent))
            count, kind = int(facts["tasks"]), "task"
            if "" not in facts["scripts"]:
                count, kind = len(facts["scripts"]), "step"
            return str(facts["name"]), [str(facts["target"])], count, kind

    def submit(self, *, yes: bool) -> Run:
        """Starts it, and prints what a person should hear of."""
        facts = {**self.facts(), "yes": yes}
        if self.run_id is None:
            # An id of our own, so that the same call again starts nothing twice.
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
    """Sends the code of a job; the name by which the server knows it."""
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
                message = "the code changed while it was sent"
                raise UserError.of("bad-code", message, "submit again")
            if name in missing:
                server.post(f"/code/{name}", piece)
                missing.discard(name)
    return code
