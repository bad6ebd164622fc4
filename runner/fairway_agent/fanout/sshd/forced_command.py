"""What a node does for another of its task: the command that its sshd starts in place of any.

Besides plain commands (an MPI's daemon) it knows `fairway-run`, which serves a command of
FAIRWAY_EACH_NODE as `channel` describes; `fairway-signal SIGNAL`; `fairway-output NAME`; and
`fairway-event TYPE`.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from dataclasses import replace
from pathlib import Path

from fairway_agent import bundle, processes
from fairway_agent.fanout import channel, remote_exec_server

# What is a node's own, and another must not take over.
_OWN = ("_FAIRWAY_", "AZ_BATCH_", "SSH_", "FAIRWAY_NODE_ADDRESS", "FAIRWAY_METADATA_URL")
_MARK = "_FAIRWAY_STARTED_IN"  # the variable of all that another node has started
_SERVED = "served-"  # the start of what notes such a session
_OWN_NAMES = {"HOSTNAME", "HOME", "PWD", "OLDPWD", "TMPDIR", "USER", "LOGNAME", "SHLVL", "_"}


def serve(context_file: str) -> int:
    """Does what the other node asks; returns the exit code that it is to have."""
    context = json.loads(Path(context_file).read_bytes())
    os.environ.clear()
    os.environ.update(context["environment"])
    # MPI's daemons look there for what they were told to call in place of ssh.
    os.environ["PATH"] = f"{os.environ.get('PATH', os.defpath)}:{bundle.here()}"
    base = Path(context["base"])
    os.chdir(context["code"])
    words = ORIGINAL.split()
    if words[:1] == ["fairway-run"]:
        folder = base / "sessions"
        folder.mkdir(exist_ok=True)
        (folder / f"{_SERVED}{os.getsid(0)}").touch()
        return remote_exec_server.run(_as_here)
    if words[:1] == ["fairway-signal"]:
        processes.signal_sessions(sessions(base), signal.Signals[f"SIG{words[1]}"])
        return 0
    if words[:1] == ["fairway-output"]:
        _print_output(words[1])
        return 0
    if words[:1] == ["fairway-event"]:
        (base / "event").write_text(words[1], encoding="ascii")
        return 0
    (base / "sessions" / str(os.getsid(0))).touch()
    os.environ[_MARK] = str(base)
    os.execv("/bin/bash", ["bash", "-c", ORIGINAL])  # noqa: S606


ORIGINAL = os.environ.get("SSH_ORIGINAL_COMMAND", "true")


def sessions(base: Path) -> set[int]:
    """The sessions on this node in which the other nodes have started something: also those that
    MPI's daemons make for themselves, and for their ranks."""
    noted = {int(entry.name) for entry in (base / "sessions").glob("[0-9]*")}
    return noted | processes.sessions_with(f"{_MARK}={base}".__eq__) if noted else noted


def served(base: Path) -> set[int]:
    """Those in which a command of another node is served to its end: what that starts has sessions
    of its own, and is told by its channel."""
    found = (base / "sessions").glob(f"{_SERVED}[0-9]*")
    return {int(entry.name.removeprefix(_SERVED)) for entry in found}


def _print_output(name: str) -> None:
    file = Path(os.environ["AZ_BATCH_TASK_DIR"], name)
    if file.is_file():
        sys.stdout.buffer.write(file.read_bytes())
        sys.stdout.flush()


def _as_here(command: channel.Command) -> channel.Command:
    """The command of another node with what is this node's own."""
    sent = {
        name: value
        for name, value in command.environment.items()
        if not name.startswith(_OWN) and name not in _OWN_NAMES
    }
    folder = command.cwd if Path(command.cwd).is_dir() else str(Path.cwd())
    return replace(command, cwd=folder, environment={**os.environ, **sent})
