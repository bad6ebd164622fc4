"""The project that is shown: its runs, and a thread that brings them up to date while somebody
looks."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fairway_core.findings import UserError
from fairway_runner.runs.refresh import refresh_all
from fairway_runner.runs.store import Run, RunStore

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fairway_core.findings import Finding

_PAUSE = 5.0  # seconds between two looks at the targets
_WATCHED = 30.0  # seconds for which one page that was asked for keeps the looks going


@dataclass(frozen=True)
class Runs(RunStore):
    """The runs of one project, whose records are read once: they never change."""

    _known: dict[str, Run] = field(default_factory=dict, repr=False, compare=False)

    def unsorted(self) -> Iterator[Run]:
        """Every run, in no order."""
        known = self._known
        for run in super().unsorted():
            yield known.setdefault(run.id, run)

    def find(self, text: str) -> Run:
        """The run with exactly that id; UserError otherwise."""
        if text and "/" not in text and not text.startswith("."):
            run = self._known.get(text) or Run(self.folder / text)
            if (run.folder / "run.json").is_file():
                return run
        raise UserError.of("unknown-run", f"there is no run `{text}`", "list them: fairway list")


class Refresher:
    """Looks at the targets of the runs that go on, as long as somebody looks at them here."""

    def __init__(self, runs: Runs, *, pause: float = _PAUSE) -> None:
        self._runs = runs
        self._pause = pause
        self._until = 0.0
        self._wanted = threading.Event()
        self._ended = threading.Event()
        self._followed: dict[str, float] = {}
        self.findings: Sequence[Finding] = ()

    def watch(self, followed: str | None = None) -> None:
        """Somebody looks; at what one run prints, if one is named."""
        self._until = time.monotonic() + _WATCHED
        if followed is not None:
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
            if time.monotonic() > self._until:
                self._wanted.clear()
                continue
            self.look()
            self._ended.wait(self._pause)

    def look(self) -> None:
        """One look at each target, and at what the runs print that are followed."""
        self.findings = refresh_all(self._runs.unsorted())
        now = time.monotonic()
        self._followed = {name: end for name, end in self._followed.items() if end > now}
        for name in list(self._followed):
            try:
                self._runs.find(name).refresh(logs=True)
            except (UserError, OSError):
                continue  # the look at its target says why
