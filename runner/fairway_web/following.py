"""Goes on with runs that a command has to follow, whether or not somebody looks at them: begins the
next step, or takes a run to its next target.

What was begun is in the runs' own folders: where this process is killed, the next one goes on, as
commands do.
"""

from __future__ import annotations

import logging
import threading
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING

from fairway_core.findings import Finding, UserError, printable
from fairway_runner.runs import steps
from fairway_web.project import Runs, failed_look

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fairway_runner.runs.store import Run, RunStore

_PAUSE = 5.0  # seconds between two looks
_SELDOM = 6  # looks, of which one takes steps too that begin by themselves
_AT_ONCE = 8  # runs: one whose target does not answer keeps no other waiting

_LOG = logging.getLogger("fairway")


class Follower:
    """Follows the runs of one project that would stay where they are by themselves."""

    def __init__(self, store: RunStore, *, pause: float = _PAUSE) -> None:
        self._runs = Runs(store.base)  # its own: one thread at a time has the engine of a run
        self._pause = pause
        self._ended = threading.Event()
        self._room = threading.Semaphore(_AT_ONCE)
        self._lock = threading.Lock()
        self._busy: set[str] = set()
        self._found: dict[str, tuple[Finding, ...]] = {}

    @property
    def findings(self) -> Sequence[Finding]:
        """What stands in the way of runs now."""
        with self._lock:
            return [each for found in self._found.values() for each in found]

    def start(self) -> None:
        """Begins, in threads that end with the program."""
        threading.Thread(target=self._work, name="follower", daemon=True).start()

    def end(self) -> None:
        """No further look is begun."""
        self._ended.set()

    def look(self, *, all_: bool = True) -> list[threading.Thread]:
        """Goes on with the runs that have to be followed, each in a thread, and with `all_` of
        those whose steps all wait on their targets: a submission may have been cut off. One that is
        still being looked at is left out."""
        due, open_ = [], set()
        for run in self._runs.unsorted():
            try:
                if not _is_open(run):
                    continue
                open_.add(run.id)
                if all_ or not steps.has_steps(run.folder) or steps.to_begin(run):
                    due.append(run)
            except (UserError, OSError):
                continue  # it was removed just now, or `list` says what is wrong with it
        with self._lock:
            self._found = {name: each for name, each in self._found.items() if name in open_}
            due = [run for run in due if run.id not in self._busy]
            self._busy |= {run.id for run in due}
        threads = [threading.Thread(target=self._follow, args=[run], daemon=True) for run in due]
        for thread in threads:
            thread.start()
        return threads

    def _work(self) -> None:
        for number in count():
            try:
                self.look(all_=number % _SELDOM == 0)
            except OSError as error:  # the folder of the runs cannot be read now
                _LOG.warning("%s", printable(failed_look(error).message))
            if self._ended.wait(self._pause):
                return

    def _follow(self, run: Run) -> None:
        found: Sequence[Finding] = ()
        try:
            with self._room:
                run.follow()
        except UserError as error:
            found = error.findings
        except Exception as error:  # noqa: BLE001 - the next look may succeed
            found = [failed_look(error)]
        named = tuple(replace(each, message=f"{run.id}: {each.message}") for each in found)
        with self._lock:
            new = [each for each in named if each not in self._found.get(run.id, ())]
            self._found[run.id] = named
            self._busy.discard(run.id)
        for each in new:
            _LOG.warning("%s", printable(each.message))


def _is_open(run: Run) -> bool:
    """Whether a run of several steps goes on."""
    return steps.has_steps(run.folder) and not run.status.is_final
