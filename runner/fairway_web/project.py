"""The project that is shown: its runs, and a thread that brings them up to date while somebody
looks."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fairway_core.findings import Finding, UserError
from fairway_runner.runs.store import Run, RunStore, refresh_all

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_PAUSE = 5.0  # seconds between two looks at the targets
_WATCHED = 30.0  # seconds for which one page that was asked for keeps the looks going


@dataclass(frozen=True)
class Runs(RunStore):
    """The runs of one project. A record is read once, and again where the file is another: of a
    run that went to another target, or was removed and submitted again by the same id."""

    _known: dict[str, tuple[tuple[int, int], Run]] = field(
        default_factory=dict, repr=False, compare=False
    )

    def unsorted(self) -> Iterator[Run]:
        """Every run, in no order."""
        for run in super().unsorted():
            current = self._current(run)
            if current is not None:
                yield current

    def find(self, text: str, *, going: bool = False) -> Run:
        """The run with exactly that id; UserError otherwise."""
        if text and "/" not in text and not text.startswith("."):
            run = self._current(Run(self.folder / text))
            if run is not None:
                return run
        raise UserError.of("unknown-run", f"there is no run `{text}`", "list them: fairway list")

    def _current(self, run: Run) -> Run | None:
        """The run as it is known, or this one; None where it is not there."""
        try:
            found = (run.folder / "run.json").stat()
        except (OSError, ValueError):  # also of a name that no file can have
            return None
        file = (found.st_ino, found.st_mtime_ns)
        known = self._known.get(run.id)
        if known is None or known[0] != file:
            self._known[run.id] = known = (file, run)
        return known[1]


class Refresher:
    """Looks at the targets of the runs that go on, as long as somebody looks at them here."""

    def __init__(self, runs: Runs, *, pause: float = _PAUSE) -> None:
        self._runs = runs
        self._pause = pause
        self._until = 0.0
        self._wanted = threading.Event()
        self._ended = threading.Event()
        self._lock = threading.Lock()
        self._followed: dict[str, float] = {}
        self.findings: Sequence[Finding] = ()

    def watch(self, followed: str | None = None) -> None:
        """Somebody looks; at what one run prints, if one is named."""
        self._until = time.monotonic() + _WATCHED
        if followed is not None:
            with self._lock:
                self._followed[followed] = self._until
        self._wanted.set()

    def start(self) -> None:
        """Begins, in a thread of its own that ends with the program."""
        threading.Thread(target=self._work, name="refresher", daemon=True).start()

    def end(self) -> None:
        """No further look is begun."""
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
                self._ended.wait(self._pause)

    def look(self) -> None:
        """One look at each target, and at what the runs print that are followed."""
        self.findings = refresh_all(self._runs.unsorted())
        now = time.monotonic()
        with self._lock:
            self._followed = {name: end for name, end in self._followed.items() if end > now}
            followed = list(self._followed)
        for name in followed:
            try:
                self._runs.find(name).follow(logs=True)
            except (UserError, OSError):
                continue  # the look at its target says why


def failed_look(error: Exception) -> Finding:
    """What is said where runs cannot be brought up to date, for a reason of no target's."""
    message = f"the runs cannot be brought up to date: {error or type(error).__name__}"
    return Finding("no-look", message, hint="this is the last known state")
