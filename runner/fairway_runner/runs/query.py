"""Which of the runs of a folder are listed, and in which order."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING

from fairway_core.findings import UserError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from fairway_core.findings import Finding
    from fairway_runner.runs.labels import Labels
    from fairway_runner.runs.records import RunRecord
    from fairway_runner.runs.run_columns import Column, Found
    from fairway_runner.runs.store import Run, RunStore


@dataclass(frozen=True)
class Wanted:
    """What must hold for a run: all that is given here.

    `tags` are all to be there, `since` and `before` are in seconds since 1970, `text` is looked
    for in the run's id, tags, note and job file, in upper and lower case alike. With `behind`
    those of the very moment `before` are taken too whose ids come after it.
    """

    states: Collection[str] = ()
    name: str | None = None
    target: str | None = None
    tags: Collection[str] = ()
    since: float | None = None
    text: str = ""
    before: float | None = None
    behind: str | None = None

    def takes_record(self, record: RunRecord) -> bool:
        """Whether what was submitted fits."""
        return (
            (self.name is None or record.name == self.name)
            and (self.target is None or record.target == self.target)
            and (self.since is None or record.created >= self.since)
            and (self.before is None or self._is_before(record, self.before))
        )

    def _is_before(self, record: RunRecord, moment: float) -> bool:
        is_behind = self.behind is not None and record.id > self.behind
        return record.created < moment or (record.created == moment and is_behind)

    def takes_words(self, run: Run, labels: Labels) -> bool:
        """Whether its tags, and its words, fit."""
        if not set(self.tags) <= set(labels.tags):
            return False
        text = self.text.lower()
        words = "\n".join((run.id, labels.note, *labels.tags)).lower()
        return text in words or text in _job_file(run).lower()


@dataclass
class Listing:
    """Runs with their recorded states, the last of their order last, and what is wrong with
    those that cannot be read."""

    runs: list[Found] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)


def select(
    store: RunStore,
    wanted: Wanted | None = None,
    limit: int | None = None,
    sort: Column | None = None,
    *,
    descending: bool = False,
    refresh: Callable[[list[Run]], list[Finding]] | None = None,
) -> Listing:
    """The runs for which all that is `wanted` holds: the last `limit` of their order, in which
    the newest is last, or the one with the highest value of the column to `sort` by. `refresh`
    brings those up to date first that may be among them."""
    wanted, listing = wanted or Wanted(), Listing()
    runs = _fitting(store, wanted, listing)
    last = limit if sort is None else None
    if refresh is not None:
        known = list(runs if wanted.states else islice(runs, last))
        listing.findings += refresh(known)
        runs = iter(known)
    for run in runs:
        with _readable(listing):
            status = run.status
            fits = not wanted.states or status.state in wanted.states
            if fits and wanted.takes_words(run, run.labels):
                listing.runs.append((run, status))
        if len(listing.runs) == last:
            break
    listing.runs.reverse()
    if sort is not None:
        listing.runs = sort.ordered(listing.runs, descending=descending)
        listing.runs = listing.runs[-limit:] if limit else listing.runs
    return listing


def _fitting(store: RunStore, wanted: Wanted, listing: Listing) -> Iterator[Run]:
    """The runs whose records and words fit, the newest first."""
    runs = []
    for run in store.unsorted():
        with _readable(listing):
            if wanted.takes_record(run.record):
                runs.append(run)
    for run in sorted(runs, key=lambda run: (-run.record.created, run.id)):
        fits = not (wanted.tags or wanted.text)
        if not fits:
            with _readable(listing):
                fits = wanted.takes_words(run, run.labels)
        if fits:
            yield run


@contextmanager
def _readable(listing: Listing) -> Iterator[None]:
    """Around what is read of a run: what is wrong with it is listed; one that was removed just now
    is left out."""
    try:
        yield
    except UserError as error:
        listing.findings += error.findings
    except FileNotFoundError:
        pass


def _job_file(run: Run) -> str:
    try:
        return (run.folder / "job.yaml").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
