"""The served project, and the threads that work for it."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from anyio import CapacityLimiter, to_thread
from anyio.lowlevel import RunVar

from fairway_core.findings import Finding, UserError, printable
from fairway_runner.runs.folder import steps_to_begin
from fairway_runner.runs.records import has_steps, removed
from fairway_runner.runs.store import Run, RunStore, refresh_all
from fairway_web.roles import request_context
from fairway_web.runs import Runs

if TYPE_CHECKING:
    from starlette.requests import Request

T = TypeVar("T")

_limiters: RunVar[dict[tuple[Room, str], CapacityLimiter]] = RunVar("limiters")
_LOG = logging.getLogger("fairway")


def file_error(error: OSError) -> UserError:
    """Returns the error for an unreadable or unwritable file; raises any other OSError again."""
    if error.filename is None:
        raise error
    if (gone := removed(Path(error.filename))) is not None:
        return gone
    message = f"{error.filename}: {error.strerror}"
    return UserError.of("file-error", message, f"ls -ld {error.filename}", exit_code=5)


class Room:
    """Threads for calls of one kind: `most` in parallel, half of them for each of several people,
    whose further calls wait without blocking others."""

    def __init__(self, most: int) -> None:
        self.most = most

    async def __call__(self, function: Callable[..., T], *arguments: object) -> T:
        """Returns a function's result from a thread. Raises UserError for an error about a file."""
        person = request_context().person
        own = self._limiter(f"of {person.id}", self.most // 2 if person.is_named else self.most)
        try:
            async with own:
                all_ = self._limiter("", self.most)
                return await to_thread.run_sync(function, *arguments, limiter=all_)
        except OSError as error:
            raise file_error(error) from None

    def _limiter(self, who: str, most: int) -> CapacityLimiter:
        try:
            known = _limiters.get()
        except LookupError:
            _limiters.set(known := {})
        return known.setdefault((self, who), CapacityLimiter(most))


reading = Room(40)
acting = Room(100)  # on runs: these threads mostly sleep
checking = Room(4)  # jobs, at each edit: these compute, each in a process
submitting = Room(16)  # these have a process too, which waits for targets
verifying = Room(8)  # tokens; may wait for keys

_PAUSE = 5.0  # seconds between two polls of the targets
_WATCHED = 30.0  # seconds for which one page view keeps the polls running


class Refresher:
    """Refreshes active runs as long as somebody looks at them here."""

    def __init__(self, runs: Runs) -> None:
        self._runs = runs
        self._until = 0.0
        self._wanted = threading.Event()
        self._ended = threading.Event()
        self._lock = threading.Lock()
        self._followed: dict[str, float] = {}
        self.findings: Sequence[Finding] = ()

    def watch(self, followed: str | None = None) -> None:
        """Records that somebody looks, and at which run's output, if one is named."""
        self._until = time.monotonic() + _WATCHED
        if followed is not None:
            with self._lock:
                self._followed[followed] = self._until
        self._wanted.set()

    def start(self) -> None:
        threading.Thread(target=self._work, name="refresher", daemon=True).start()

    def end(self) -> None:
        self._ended.set()
        self._wanted.set()

    def _work(self) -> None:
        while not self._ended.is_set():
            self._wanted.wait()
            self._wanted.clear()
            while not self._ended.is_set() and time.monotonic() <= self._until:
                try:
                    self.look()
                except Exception as error:  # noqa: BLE001 - the next look may succeed
                    self.findings = [failed_look(error)]
                self._ended.wait(_PAUSE)

    def look(self) -> None:
        """Looks at each target once, and at the output of runs that are followed."""
        self.findings = refresh_all(self._runs.unsorted())
        now = time.monotonic()
        with self._lock:
            self._followed = {name: end for name, end in self._followed.items() if end > now}
            followed = list(self._followed)
        for name in followed:
            try:
                self._runs.find(name).follow(logs=True)
            except (UserError, OSError):
                continue  # polling its target reports the error


def failed_look(error: Exception) -> Finding:
    """Returns the finding for a failed refresh that is no target's fault."""
    message = f"the runs cannot be brought up to date: {error or type(error).__name__}"
    return Finding("no-look", message, hint="this is the last known state")


_SELDOM = 6  # every sixth poll includes steps that start by themselves
_AT_ONCE = 8  # runs polled in parallel: an unavailable target delays no others


class Follower:
    """Starts the next steps of runs, even if nobody looks at them. Progress is stored in the runs'
    own folders: if this process is killed, the next one continues, as commands do."""

    def __init__(self, store: RunStore) -> None:
        self._runs = Runs(store.base)  # its own, because a run's engine is not thread-safe
        self._ended = threading.Event()
        self._room = threading.Semaphore(_AT_ONCE)
        self._lock = threading.Lock()
        self._busy: set[str] = set()
        self._found: dict[str, tuple[Finding, ...]] = {}

    @property
    def findings(self) -> Sequence[Finding]:
        """Findings about runs that cannot proceed now."""
        with self._lock:
            return [each for found in self._found.values() for each in found]

    def start(self) -> None:
        threading.Thread(target=self._work, name="follower", daemon=True).start()

    def end(self) -> None:
        self._ended.set()

    def look(self, *, all_: bool = True) -> list[threading.Thread]:
        """Advances the runs that have to be followed, each in a thread, and with `all_` those whose
        steps all wait on their targets: a submission may have been interrupted. Runs that an
        earlier look still advances are skipped. Returns the threads."""
        due, open_ = [], set()
        for run in self._runs.unsorted():
            try:
                if not has_steps(run.folder) or run.status.is_final:
                    continue
                open_.add(run.id)
                if all_ or steps_to_begin(run):
                    due.append(run)
            except (UserError, OSError):
                continue  # it was just removed, or `list` reports the error
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
            except OSError as error:  # the runs' folder is unreadable right now
                _LOG.warning("%s", printable(failed_look(error).message))
            if self._ended.wait(_PAUSE):
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


class Site:
    """One project, and the threads that follow its runs."""

    def __init__(self, runs: Runs, follower: Follower | None) -> None:
        self.runs, self.follower = runs, follower
        self.refresher = Refresher(runs)


def site_of(request: Request) -> Site:
    site: Site = request.app.state.site
    return site
