"""`fairway submit` to a server: the job as text and the code that it needs, of which the server is
sent what it has not yet."""

from __future__ import annotations

import json
import secrets
import string
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import typer

from fairway_cli.server.commands import require_unset
from fairway_cli.server.connection import Sent, found_beside, found_in, quoted
from fairway_cli.server.runs import wait_for
from fairway_cli.ui.progress import print_begun, print_empty, print_end, print_valid
from fairway_core.findings import Finding, UserError, format_finding, printable

if TYPE_CHECKING:
    from fairway_cli.server.connection import Server
    from fairway_runner.jobs.job_file import JobFile

_DETACHED = 130


def submit_command(
    server: Server,
    *,
    job: str | None,
    target: list[str] | None,
    set_: list[str] | None,
    tag: list[str] | None,
    note: str | None,
    watch: bool,
    dry_run: bool,
    run_id: str | None,
    resume: str | None,
    yes: bool,
    quiet: bool,
    json_: bool,
) -> None:
    """As `fairway submit`; see there."""
    from fairway_cli.commands.arguments import target_names
    from fairway_runner.jobs.job_file import load_job

    require_unset("submit", resume=resume)
    if job is None:
        raise UserError.of("no-job", "no job is given", "fairway submit JOB")
    job_file = load_job(job, set_ or ())
    text = job_file.document.text.source
    sent = Sent(job_file.document.file, text, tuple(set_ or ()))
    server = replace(server, sent=sent)
    asked = {
        "job": text,
        "file": job_file.document.file,
        "code": _send(server, job_file),
        "set": set_ or [],
        "target": target_names(target),
        "run_id": run_id or _new_id(job_file),
        "tags": tag or [],
        "note": note,
        "yes": yes,
    }
    if dry_run:
        _check(server, {**asked, "run_id": run_id}, json_=json_)
        return
    facts = _start(server, asked)
    if not watch:
        with server.understood():
            print_begun(facts, json_=json_, quiet=quiet, by_server=True)
        return
    raise typer.Exit(_watch(server, facts, json_=json_, quiet=quiet))


def _send(server: Server, job_file: JobFile) -> str:
    """Sends the code of a job; the name by which the server knows it."""
    from fairway_runner.submit.parcel import Parcel, digest_of

    parcel = Parcel.of(job_file)
    for finding in parcel.warnings:
        print(format_finding(finding), file=sys.stderr)
    names = [digest_of(piece) for piece in parcel.pieces()]
    told = server.post("/code", {"pieces": names})
    with server.understood():
        code, missing = str(told["code"]), {str(each) for each in told["missing"]}
    if missing:
        for piece in parcel.pieces():
            name = digest_of(piece)
            if name not in names:
                message = "the code changed while it was sent"
                raise UserError.of("bad-code", message, "submit again")
            if name in missing:
                server.post(f"/code/{name}", piece)
                missing.discard(name)
    return code


def _new_id(job_file: JobFile) -> str:
    """An id of our own, so that the same call again starts nothing twice."""
    data = job_file.document.data
    name = data.get("name") if isinstance(data, dict) else None
    end = "".join(secrets.choice(string.ascii_lowercase + string.digits) for _ in range(6))
    return f"{name if isinstance(name, str) else 'job'}-{end}"


def _check(server: Server, asked: dict[str, Any], *, json_: bool) -> None:
    """Says what it would start."""
    facts = server.post("/check", asked)
    with server.understood():
        for finding in found_in(facts["findings"], server.sent):
            print(format_finding(finding), file=sys.stderr)
        steps = "" not in facts["scripts"]
        tasks, kind = (len(facts["scripts"]), "step") if steps else (int(facts["tasks"]), "task")
        targets = [str(each) for each in (facts["target"], *facts["next_targets"])]
        print_valid(str(facts["name"]), targets, tasks, kind, json_=json_)


def _start(server: Server, asked: dict[str, Any]) -> dict[str, Any]:
    """Starts it, and says what a person should hear of."""
    try:
        answer = server.answer("POST", "/runs", body=json.dumps(asked).encode())
    except UserError as error:
        codes = {each.id for each in error.findings}
        if "many-tasks" in codes:
            _confirm(error)
            answer = server.answer(
                "POST", "/runs", body=json.dumps({**asked, "yes": True}).encode()
            )
        elif "server-away" in codes:
            raise _unheard(error, asked["run_id"]) from None
        else:
            raise
    for finding in found_beside(answer, server.sent):
        print(format_finding(finding), file=sys.stderr)
    facts = server.data(answer)
    with server.understood():
        return {**facts, **{name: str(facts[name]) for name in ("run_id", "target", "state")}}


def _confirm(error: UserError) -> None:
    """Asks before very many tasks; UserError where nobody can be asked."""
    message = error.findings[0].message
    if sys.stdin.isatty() and sys.stderr.isatty():
        typer.confirm(printable(f"{message}. Start them?"), abort=True, err=True)
        return
    raise UserError.of("many-tasks", message, "add --yes to start them")


def _unheard(error: UserError, run_id: str) -> UserError:
    """What is said where it may have been started."""
    hint = f"submit it again with --run-id {run_id}: nothing starts twice"
    finding = Finding("cut-off-submission", f"{run_id} may have been started", hint)
    return UserError([*error.findings, finding], exit_code=error.exit_code)


def _watch(server: Server, facts: dict[str, Any], *, json_: bool, quiet: bool) -> int:
    """Follows a run until it has ended; its exit code, or 130 where a person stopped watching."""
    run_id = facts["run_id"]
    if not json_ and not quiet:
        print(printable(f"{run_id} runs on {facts['target']}"), flush=True)
    try:
        if facts["tasks"] == 1 and "steps_to_begin" not in facts and not quiet:
            from fairway_cli.server.logs import follow_run

            follow_run(server, run_id, (sys.stderr if json_ else sys.stdout).buffer)
        ended = wait_for(server, run_id)
    except KeyboardInterrupt:
        said = f"\n{run_id} is still running; to end it: fairway cancel {run_id}"
        print(said, file=sys.stderr)
        return _DETACHED
    found = server.get(f"/runs/{quoted(run_id)}")
    with server.understood():
        tasks = found["task_list"]
        own = tasks[0]["reason"] if len(tasks) == 1 and found["state"] != "succeeded" else None
        print_end({**found, "exit_code": ended["exit_code"]}, own, json_=json_)
        print_empty(run_id, ended["empty_outputs"])
    return int(ended["exit_code"] or 0)
