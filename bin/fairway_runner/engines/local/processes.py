"""The processes of a task, and how they are brought to an end.

A task runs in a session of its own, so that all that it started can be found again by
the session's id, whatever process groups a launcher makes. Standard library only, as
all that a supervisor imports: it also runs where nothing of Fairway is installed.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

# These end their ranks within half a second of a SIGTERM, so the ranks are told first
# and have the whole grace to themselves. (Measured with Open MPI 5: 0.25 s to a SIGKILL.)
_LAUNCHERS = {"bash", "dash", "sh", "mpirun", "prterun", "prte", "prted", "orted"}
_LAUNCHERS |= {"mpiexec", "mpiexec.hydra", "hydra_pmi_proxy"}


def members(sessions: Collection[int]) -> dict[int, str]:
    """The live processes of some sessions: process id to the program's name."""
    found = {}
    for process in _all():
        try:
            text = (process / "stat").read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue  # it ended meanwhile
        name, _, fields = text.partition("(")[2].rpartition(")")
        state, _parent, _group, session = fields.split()[:4]
        if int(session) in sessions and state != "Z":
            found[int(process.name)] = name
    return found


def sessions_of(run: str) -> set[int]:
    """The sessions in which processes of a run are alive, known by their FAIRWAY_RUN."""
    mark = f"FAIRWAY_RUN={run}".encode()
    found = set()
    for process in _all():
        try:
            if mark in (process / "environ").read_bytes().split(b"\0"):
                found.add(os.getsid(int(process.name)))
        except (OSError, ProcessLookupError):
            continue  # it ended meanwhile, or is another user's
    return found


def _all() -> Iterator[Path]:
    return (entry for entry in Path("/proc").iterdir() if entry.name.isdecimal())


def end(sessions: Collection[int], grace: float) -> None:
    """Ends every process of the sessions.

    The program's own processes get SIGTERM and `grace` seconds, in which a launcher ends
    by itself once its ranks have; then everything that is left gets SIGKILL.
    """
    alive = members(sessions)
    program = [pid for pid, name in alive.items() if name not in _LAUNCHERS]
    _send(program or alive, signal.SIGTERM)
    deadline = time.monotonic() + grace
    while members(sessions) and time.monotonic() < deadline:
        time.sleep(0.02)
    while alive := members(sessions):
        _send(alive, signal.SIGKILL)
        time.sleep(0.01)


def _send(pids: Iterable[int], number: signal.Signals) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue  # it ended meanwhile


class Guard:
    """A second process that ends a task's processes when their supervisor is killed.

    It learns of sessions through a pipe, and of the supervisor's end by that pipe's.
    """

    def __init__(self, inherited: Iterable[int], grace: float) -> None:
        """Forks the guard; `inherited` are descriptors that it must not keep open."""
        reading, self._writing = os.pipe()
        if os.fork() == 0:
            try:
                os.setsid()
                for descriptor in (*inherited, self._writing):
                    os.close(descriptor)
                self._stand(reading, grace)
            finally:
                os._exit(0)
        os.close(reading)

    def watch(self, session: int) -> None:
        """The session is to be ended if the supervisor dies."""
        os.write(self._writing, f"+{session}\n".encode())

    def forget(self, session: int) -> None:
        """The session has ended."""
        os.write(self._writing, f"-{session}\n".encode())

    @staticmethod
    def _stand(reading: int, grace: float) -> None:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        sessions: set[int] = set()
        with os.fdopen(reading, encoding="ascii") as lines:
            for line in lines:
                change = sessions.add if line[0] == "+" else sessions.discard
                change(int(line[1:]))
        end(sessions, grace)
