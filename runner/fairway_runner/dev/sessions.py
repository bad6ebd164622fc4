"""Sessions as runs: the job that one is made of, and which of a project's runs are some."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from fairway_core.documents import Document
from fairway_core.findings import Finding, UserError
from fairway_core.yaml_text import parse_yaml
from fairway_runner.dev import TEMPLATE
from fairway_runner.dev.sync import Known, SessionFailed
from fairway_runner.engines.capabilities import capabilities
from fairway_runner.engines.outage import brief
from fairway_runner.jobs.job import Job
from fairway_runner.jobs.job_file import JobFile, load_job
from fairway_runner.runs.records import FINAL_STATES, legible_facts
from fairway_runner.runs.store import refresh_all
from fairway_runner.submit.prepare import prepare
from fairway_runner.submit.submission import submit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fairway_core.target import Target
    from fairway_runner.dev.sync import Beside
    from fairway_runner.runs.store import Run, RunStore


# Of a job, what is for runs that do something by themselves, and what a session has its own of.
_DROPPED = (
    *("sweep", "finally", "after", "retries", "retry", "metrics", "max_duration", "target"),
    *("template", "options", "idle_gpu"),
)
_LONGEST_NAME = 40


@dataclass(frozen=True)
class Wanted:
    """A session: the file of its job, if any, what is set over it, and on how many nodes.

    It ends `seconds` after its start, and where nobody has used it for `idle` seconds; 0 is no
    such limit. `jupyter` says that JupyterLab is to run there.
    """

    job: str | None = None
    assignments: Sequence[str] = ()
    nodes: int | None = None
    seconds: float = 4 * 3600.0
    idle: float = 1800.0
    jupyter: bool = False


def session_job(wanted: Wanted, target: Target) -> JobFile:
    """The job of a session; UserError with the line of whatever is wrong in the given one."""
    if wanted.job is None:
        text = json.dumps({"name": TEMPLATE, "command": ":", "nodes": 1})
        document = Document(parse_yaml(text, "dev"), json.loads(text))
        given = JobFile(document.override(wanted.assignments, Job), Path.cwd())
    else:
        given = load_job(wanted.job, wanted.assignments)
    # Of a sweep, the first point: its values are those of the job's `params`.
    given = next(given.tasks())
    given.resolve(target)
    data = {key: value for key, value in given.document.data.items() if key not in _DROPPED}
    if wanted.job is not None:
        data["name"] = f"{TEMPLATE}-{data['name']}"[:_LONGEST_NAME].rstrip("-")
    data |= {} if wanted.nodes is None else {"nodes": wanted.nodes}
    data |= {
        "template": TEMPLATE,
        "timeout": f"{max(wanted.seconds, 0.001):.3f}".rstrip("0").rstrip(".") + "s",
        "options": {"idle": max(1, round(wanted.idle)) if wanted.idle else 0},
    }
    if wanted.jupyter:
        data["options"]["jupyter"] = True
    pair = re.compile(r"\\u(d[89ab]..)\\u(d[c-f]..)")
    text = json.dumps(data, indent=1)
    text = pair.sub(
        lambda m: rf"\U{0x10000 + ((int(m[1], 16) - 0xD800) << 10) + int(m[2], 16) - 0xDC00:08x}",
        text,
    )
    file = given.document.file
    return replace(given, document=Document(parse_yaml(text, file), data), assignments=())


def begin(wanted: Wanted, target: Target, store: RunStore) -> tuple[Run, Sequence[Finding]]:
    """Starts a session; the run, and what a person should hear of."""
    job_file = session_job(wanted, target)
    job = job_file.resolve(target)
    if job.nodes > 1 and not capabilities(target.engine).one_copy:
        message = f"a session on `{target.name}` has one node: its engine is `{target.engine}`"
        hint = "its nodes have separate copies of the code, which cannot be kept in sync: --nodes 1"
        raise UserError.of("not-supported", message, hint)
    # Before the code is collected: what changes from now on is sent.
    known = Known.of(
        job_file.folder / job.code.path, job.code.exclude, gitignore=job.code.gitignore is True
    )
    prepared = prepare(job_file, target, store)
    run = submit(prepared, store)
    known.write(run)
    return run, prepared.warnings


def is_session(run: Run) -> bool:
    """True if a run is a session."""
    return legible_facts(run.folder / "job.json").get("template") == TEMPLATE


def has_jupyter(run: Run) -> bool:
    """True if JupyterLab runs in the session."""
    return legible_facts(run.folder / "job.json").get("options", {}).get("jupyter") is True


def going(store: RunStore, target: str | None = None) -> tuple[list[Run], list[Finding]]:
    """The sessions that have not ended, of one target or all, the newest last, and which targets
    are silent; `fairway list` names runs that cannot be read."""
    found: list[Run] = []
    for run in store.unsorted():
        with suppress(UserError, OSError):
            if target in (None, run.record.target) and _goes_on(run):
                found.append(run)
    found.sort(key=lambda run: run.record.created)
    findings = refresh_all(found, patience=brief())
    return [run for run in found if _goes_on(run)], findings


def _goes_on(run: Run) -> bool:
    return run.state not in FINAL_STATES and is_session(run)


def chosen(store: RunStore, name: str | None) -> Run:
    """The session of that id, or the only one that goes on; UserError where it is none."""
    if name is not None:
        run = store.find(name)
        if not is_session(run):
            hint = f"end it with: fairway cancel {run.id}"
            raise UserError.of("no-session", f"{run.id} is not a session of `fairway dev`", hint)
        return run
    found, _ = going(store)
    if not found:
        message = f"no session is running in {store.base.parent}"
        raise UserError.of("no-session", message, "start one: fairway dev TARGET")
    if len(found) > 1:
        listed = ", ".join(run.id for run in found)
        message = f"{len(found)} sessions are running: {listed}"
        raise UserError.of("many-sessions", message, f"name one: fairway dev stop {found[-1].id}")
    return found[0]


# Before the session's script begins, what prepares it has its name, and may be in any folder.
_QUESTION = """
[ -n "${FAIRWAY_SESSION-}" ] || { printf "\\nfairway-begun=no\\n"; exit 0; }
printf "\\nfairway-%s=%s\\n" user "$(id -un)" folder "$FAIRWAY_SESSION" \\
    port "$(cat "$FAIRWAY_SCRATCH_DIR/jupyter-port" 2>/dev/null)" \\
    token "$(cat "$FAIRWAY_SCRATCH_DIR/jupyter-token" 2>/dev/null)"
"""


@dataclass(frozen=True)
class SessionAccess:
    """The `user` of a session's programs, its code's `folder`, and Jupyter's `port` and `token`."""

    user: str
    folder: str
    port: int | None = None
    token: str = field(default="", repr=False)


def look(beside: Beside) -> SessionAccess | None:
    """Asks the session; None where its script has not begun, as while its setup runs. SessionFailed
    where it does not answer, or what it says is not what it should be."""
    said = beside.ask(["sh", "-c", _QUESTION])
    facts = dict(re.findall(r"^fairway-(\w+)=(.*)$", said, re.MULTILINE))
    if facts == {"begun": "no"}:
        return None
    user, folder = facts.get("user", ""), facts.get("folder", "")
    port, token = facts.get("port", ""), facts.get("token", "")
    fits = (
        re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.@-]{0,63}", user)
        and folder.startswith("/")
        and folder.isprintable()
        and re.fullmatch(r"(?:[1-9][0-9]{3,4})?", port)
        and int(port or 0) < 1 << 16
        and re.fullmatch(r"(?:[0-9a-f]{48})?", token)
    )
    if not fits:
        message = f"{beside.run.id} does not report its user and folder"
        hint = f"see what this prints: fairway exec {beside.run.id} -- id"
        raise SessionFailed([Finding("session-failed", message, hint)], exit_code=5)
    return SessionAccess(user, folder, int(port) if port and token else None, token)
