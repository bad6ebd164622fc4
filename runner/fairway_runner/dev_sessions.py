"""Interactive sessions: runs of the template `dev`, with the code kept in sync and access by
ssh."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from fairway_agent.fanout.sshd_mesh import KEYS_ALONE
from fairway_core.documents import Document
from fairway_core.findings import Finding, UserError
from fairway_core.project_folder import VARIABLE
from fairway_core.yaml_text import parse_yaml
from fairway_runner.dev_sync import Known, SessionExec, SessionFailed
from fairway_runner.engines.capabilities import capabilities
from fairway_runner.engines.engine import new_key
from fairway_runner.engines.outage import brief
from fairway_runner.jobs.job import Job
from fairway_runner.jobs.job_file import JobFile, load_job
from fairway_runner.runs.records import (
    FINAL_STATES,
    SESSION,
    launcher_options,
    legible_facts,
    writing,
)
from fairway_runner.runs.store import Run, RunStore, refresh_all
from fairway_runner.submit.prepare import prepare
from fairway_runner.submit.submission import submit

if TYPE_CHECKING:
    from fairway_core.target import Target

# Fields of a job that only make sense for batch runs, or that a session sets itself.
_DROPPED = (
    *("sweep", "finally", "after", "retries", "retry", "metrics", "max_duration", "target"),
    *("template", "options", "idle_gpu"),
)
_LONGEST_NAME = 40


@dataclass(frozen=True)
class SessionRequest:
    """A requested session. It ends `seconds` after its start, and after `idle` seconds without use;
    0 is no limit. `jupyter` starts JupyterLab there."""

    job: str | None = None
    assignments: Sequence[str] = ()
    nodes: int | None = None
    seconds: float = 4 * 3600.0
    idle: float = 1800.0
    jupyter: bool = False


def session_job(wanted: SessionRequest, target: Target) -> JobFile:
    """Returns a session's job. Raises UserError with the line of each error in the given one."""
    if wanted.job is None:
        text = json.dumps({"name": SESSION, "command": ":", "nodes": 1})
        document = Document(parse_yaml(text, "dev"), json.loads(text))
        given = JobFile(document.override(wanted.assignments, Job), Path.cwd())
    else:
        given = load_job(wanted.job, wanted.assignments)
    # A session of a sweep takes the values of its first point.
    given = next(given.tasks())
    given.resolve(target)
    data = {key: value for key, value in given.document.data.items() if key not in _DROPPED}
    if wanted.job is not None:
        data["name"] = f"{SESSION}-{data['name']}"[:_LONGEST_NAME].rstrip("-")
    data |= {} if wanted.nodes is None else {"nodes": wanted.nodes}
    data |= {
        "template": SESSION,
        "timeout": f"{max(wanted.seconds, 0.001):.3f}".rstrip("0").rstrip(".") + "s",
        "options": {"idle": max(1, round(wanted.idle)) if wanted.idle else 0},
    }
    if wanted.jupyter:
        data["options"]["jupyter"] = True
    # JSON escapes non-BMP characters as surrogate pairs, which YAML does not accept.
    text = json.dumps(data, indent=1, ensure_ascii=False)
    text = re.sub(r"[^\n -~]", lambda each: f"\\U{ord(each[0]):08x}", text)
    file = given.document.file
    return replace(given, document=Document(parse_yaml(text, file), data), assignments=())


def begin(wanted: SessionRequest, target: Target, store: RunStore) -> tuple[Run, Sequence[Finding]]:
    """Starts a session; returns the run, and warnings."""
    job_file = session_job(wanted, target)
    job = job_file.resolve(target)
    if job.nodes > 1 and not capabilities(target.engine).one_copy:
        message = f"a session on `{target.name}` has one node: its engine is `{target.engine}`"
        hint = "its nodes have separate copies of the code, which cannot be kept in sync: --nodes 1"
        raise UserError.of("not-supported", message, hint)
    # Before the code is collected, so that changes from now on are sent.
    known = Known.of(
        job_file.folder / job.code.path, job.code.exclude, gitignore=job.code.gitignore is True
    )
    prepared = prepare(job_file, target, store)
    run = submit(prepared, store)
    known.write(run)
    return run, prepared.warnings


def is_session(run: Run) -> bool:
    return legible_facts(run.folder / "job.json").get("template") == SESSION


def has_jupyter(run: Run) -> bool:
    return launcher_options(run.folder).get("jupyter") is True


def active_sessions(store: RunStore, target: str | None = None) -> tuple[list[Run], list[Finding]]:
    """Returns the active sessions, of one target or all, the newest last, and the targets that do
    not answer; `fairway list` names unreadable runs."""
    found: list[Run] = []
    for run in store.unsorted():
        with suppress(UserError, OSError):
            if target in (None, run.record.target) and _is_active(run):
                found.append(run)
    found.sort(key=lambda run: run.record.created)
    findings = refresh_all(found, patience=brief())
    return [run for run in found if _is_active(run)], findings


def _is_active(run: Run) -> bool:
    return run.state not in FINAL_STATES and is_session(run)


def chosen(store: RunStore, name: str | None) -> Run:
    """Returns the session of that id, or the only active one. Raises UserError if there is none."""
    if name is not None:
        run = store.find(name)
        if not is_session(run):
            hint = f"end it with: fairway cancel {run.id}"
            raise UserError.of("no-session", f"{run.id} is not a session of `fairway dev`", hint)
        return run
    found, _ = active_sessions(store)
    if not found:
        message = f"no session is running in {store.base.parent}"
        raise UserError.of("no-session", message, "start one: fairway dev TARGET")
    if len(found) > 1:
        listed = ", ".join(run.id for run in found)
        message = f"{len(found)} sessions are running: {listed}"
        raise UserError.of("many-sessions", message, f"name one: fairway dev stop {found[-1].id}")
    return found[0]


# Before the session's script starts, its preparation has the name, and may be in any folder.
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


def look(session: SessionExec) -> SessionAccess | None:
    """Asks the session for its access; returns None before its script has begun, as while its setup
    runs. Raises SessionFailed if it does not answer, or gives an invalid answer."""
    said = session.ask(["sh", "-c", _QUESTION])
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
        message = f"{session.run.id} does not report its user and folder"
        hint = f"see what this prints: fairway exec {session.run.id} -- id"
        raise SessionFailed([Finding("session-failed", message, hint)], exit_code=5)
    return SessionAccess(user, folder, int(port) if port and token else None, token)


FOLDER = "fairway.d"
INCLUDE = f"Include {FOLDER}/*.conf"
"""Line of ~/.ssh/config that makes every session a host."""

_BLOCK = """\
# {folder}
Host {run}
    User {user}
    ProxyCommand {command}
    IdentityFile "{key}"
    IdentitiesOnly yes
    # Its server is at the other end of `fairway exec`, which knows its host.
    StrictHostKeyChecking no
    UserKnownHostsFile /dev/null
    LogLevel ERROR
    ServerAliveInterval 15
"""

# Each connection has its own temporary folder, removed with it. The shell is not replaced, because
# its environment shows that the session is in use.
_SERVER = r"""
set -eu
umask 077
server=$(PATH=$PATH:/usr/sbin:/usr/local/sbin:/sbin command -v sshd) || {
    echo "fairway: there is no sshd here: install openssh-server into the image" >&2
    exit 4
}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
trap "exit 129" HUP
trap "exit 143" TERM
[ "$(id -u)" != 0 ] || mkdir -p -m 755 /run/sshd
ssh-keygen -q -t ed25519 -N "" -f "$folder/key"
printf "%s\n" "$1" >"$folder/authorized_keys"
(
    unset HOME LOGNAME USER TERM SHLVL OLDPWD SSH_CONNECTION SSH_CLIENT SSH_TTY
    export -p
) >"$folder/environment"
cat >"$folder/login" <<END
. "$folder/environment"
cd "\$PWD"
shell=\$(command -v bash || command -v sh)
if [ -n "\${SSH_ORIGINAL_COMMAND-}" ]; then exec "\$shell" -c "\$SSH_ORIGINAL_COMMAND"; fi
exec "\$shell"
END
for sftp in /usr/lib/openssh /usr/libexec/openssh /usr/lib/ssh; do
    [ ! -x "$sftp/sftp-server" ] || break
done
cat >"$folder/config" <<END
HostKey $folder/key
AuthorizedKeysFile $folder/authorized_keys
$2LogLevel ERROR
Subsystem sftp $sftp/sftp-server
ForceCommand sh $folder/login
END
"$server" -i -f "$folder/config"
"""


@dataclass(frozen=True)
class Host:
    """A session for ssh and VS Code: its host name, and the folder of its code."""

    name: str
    folder: str
    included: bool

    @property
    def vscode(self) -> str:
        """URL that opens the folder in VS Code."""
        return f"vscode://vscode-remote/ssh-remote+{self.name}{quote(self.folder)}"

    @property
    def code_command(self) -> str:
        """Command that opens the folder in VS Code."""
        return shlex.join(["code", "--remote", f"ssh-remote+{self.name}", self.folder])


def server_command(run: Run) -> list[str]:
    """Returns the command that runs in the session for one connection."""
    return ["sh", "-c", _SERVER, "sh", _public_key(run), KEYS_ALONE]


def write_host(run: Run, access: SessionAccess, program: Sequence[str]) -> Host:
    """Writes a session's ssh configuration with `program` as proxy command. Raises UserError."""
    _public_key(run)
    variable = f"{VARIABLE}={run.folder.parents[2]}"
    words = shlex.join(["env", variable, *program, "dev", "connect", run.id])
    block = _BLOCK.format(
        folder=run.folder,
        run=run.id,
        user=access.user,
        command=words.replace("%", "%%"),
        key=re.sub(r'["\\]', r"\\\g<0>", str(_key(run)).replace("%", "%%")),
    )
    folder = _ssh_folder() / FOLDER
    hint = f"work in the session with: fairway exec {run.id} -- bash"
    with writing(f"{folder} cannot be written", hint):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for file in folder.glob("*.conf"):  # of runs that no longer exist
            with suppress(OSError, ValueError):
                first = file.read_text(encoding="utf-8").partition("\n")[0]
                if first.startswith("# /") and not Path(first.removeprefix("# ")).is_dir():
                    file.unlink()
        draft = folder / f".{run.id}.{os.getpid()}"
        draft.touch(mode=0o600)
        draft.write_text(block, encoding="utf-8")
        draft.replace(folder / f"{run.id}.conf")
    config = ""
    with suppress(OSError):
        config = (_ssh_folder() / "config").read_text(encoding="utf-8", errors="replace")
    line = rf"(?im)^\s*include\s.*\b{re.escape(FOLDER)}/\*"
    return Host(run.id, access.folder, included=re.search(line, config) is not None)


def remove_host(run: Run) -> None:
    """Removes the ssh configuration of a session that has ended."""
    with suppress(OSError):
        (_ssh_folder() / FOLDER / f"{run.id}.conf").unlink(missing_ok=True)


def _ssh_folder() -> Path:
    return Path.home() / ".ssh"


def _key(run: Run) -> Path:
    """Returns the key of a project's sessions, which its runs do not get."""
    return run.folder.parents[1] / "ssh" / "key"


def _public_key(run: Run) -> str:
    key = _key(run)
    public = key.with_suffix(".pub")
    with writing(f"{public} cannot be read", f"remove the folder {key.parent}, and try again"):
        if not public.exists():
            private, text = new_key("fairway dev")
            key.parent.mkdir(mode=0o700, exist_ok=True)
            key.touch(mode=0o600)
            key.write_bytes(private)
            public.write_text(text, encoding="ascii")
        return public.read_text(encoding="ascii").strip()
