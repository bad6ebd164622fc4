"""What a node does for another of its task: the command that its sshd starts in place of any.

Besides plain commands (an MPI's daemon) it knows `fairway-run`, for FAIRWAY_EACH_NODE, whose
order comes through its input and whose end comes with that input's; `fairway-tell SIGNAL`;
`fairway-output NAME`; and `fairway-notice TYPE`.
"""

from __future__ import annotations

import json
import os
import signal
import struct
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from fairway_agent import processes

LENGTH = struct.Struct("!I")
_GRACE = 5.0  # seconds for what is left when the main node has gone


def serve(context_file: str) -> int:
    """Does what the other node asks; returns the exit code that it is to have."""
    context = json.loads(Path(context_file).read_bytes())
    os.environ.clear()
    os.environ.update(context["environment"])
    base = Path(context["base"])
    os.chdir(context["code"])
    words = ORIGINAL.split()
    if words[:1] == ["fairway-run"]:
        return _run(base)
    if words[:1] == ["fairway-tell"]:
        processes.tell(sessions(base), signal.Signals[f"SIG{words[1]}"])
        return 0
    if words[:1] == ["fairway-output"]:
        _print_output(words[1])
        return 0
    if words[:1] == ["fairway-notice"]:
        (base / "notice").write_text(words[1], encoding="ascii")
        return 0
    _register(base, os.getsid(0))
    os.execv("/bin/bash", ["bash", "-c", ORIGINAL])  # noqa: S606


ORIGINAL = os.environ.get("SSH_ORIGINAL_COMMAND", "true")


def sessions(base: Path) -> set[int]:
    """The sessions on this node in which the task's processes are."""
    return {int(entry.name) for entry in (base / "sessions").iterdir() if entry.name.isdecimal()}


def _register(base: Path, session: int) -> None:
    (base / "sessions" / str(session)).touch()


def _print_output(name: str) -> None:
    file = Path(os.environ["AZ_BATCH_TASK_DIR"], name)
    if file.is_file():
        sys.stdout.buffer.write(file.read_bytes())
        sys.stdout.flush()


def _run(base: Path) -> int:
    """Runs the command of which the other node sends words, folder and environment."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    length = LENGTH.unpack(_read(LENGTH.size))[0]
    order: dict[str, Any] = json.loads(_read(length))
    process = subprocess.Popen(
        order["argv"],
        cwd=order["cwd"] if Path(order["cwd"]).is_dir() else None,
        env={**os.environ, **order["environment"]},
        stdin=subprocess.DEVNULL,
        start_new_session=True,
        preexec_fn=_heed_signals,  # there are no threads yet
    )
    _register(base, process.pid)
    threading.Thread(target=_end_with_input, args=(process.pid,), daemon=True).start()
    code = process.wait()
    processes.end({process.pid}, _GRACE)
    return 128 - code if code < 0 else code


def _heed_signals() -> None:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def _end_with_input(session: int) -> None:
    """Ends the command when the node that asked for it has gone, or wants no more of it."""
    while os.read(0, 4096):
        continue
    processes.end({session}, _GRACE)


def _read(count: int) -> bytes:
    data = b""
    while len(data) < count:
        piece = os.read(0, count - len(data))
        if not piece:
            raise EOFError("the order was cut off")
        data += piece
    return data
