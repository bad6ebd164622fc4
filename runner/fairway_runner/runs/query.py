"""Lists of runs: selection, order and columns, and the usage of runs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import field, replace
from functools import cache
from itertools import islice
from operator import itemgetter
from typing import TYPE_CHECKING, Any, TypeVar

from fairway_agent.quick import dataclass
from fairway_agent.state_files import STATES
from fairway_core.findings import Finding, UserError
from fairway_core.suggestions import did_you_mean
from fairway_runner.engines.capabilities import runs_here
from fairway_runner.engines.engine import engine_for
from fairway_runner.runs.store import Run, RunStore, refresh_all
from fairway_runner.runs.view import run_facts

if TYPE_CHECKING:
    from fairway_agent.state_files import RunState
    from fairway_core.cost.prices import Prices
    from fairway_core.target import Target
    from fairway_runner.runs.labels import Labels
    from fairway_runner.runs.records import RunRecord
    from fairway_runner.runs.usage import RunUsage

T = TypeVar("T")

# A run with its recorded state.
Found = tuple["Run", "RunState"]

# Columns by facts of a run.
FACTS = {
    **{name: name for name in ("name", "state", "target", "tasks", "created", "started", "ended")},
    "id": "run_id",
    "time": "seconds",
    "tags": "tags",
    "note": "note",
    "reason": "reason",
}
_KINDS = ("metric", "param")


@dataclass(frozen=True)
class Column:
    """One column: a fact such as `time`, or `metric:NAME`, or `param:NAME`."""

    title: str

    @classmethod
    def of(cls, text: str) -> Column:
        """Returns the column of that title. Raises UserError if there is none."""
        kind, colon, name = text.partition(":")
        if text in FACTS or (colon and kind in _KINDS and name):
            return cls(text)
        known = [*FACTS, *(f"{each}:NAME" for each in _KINDS)]
        hint = (not colon and did_you_mean(text, known)) or f"columns: {', '.join(known)}"
        raise UserError.of("unknown-column", f"there is no column `{text[:60]}`", hint)

    @classmethod
    def listed(cls, text: str) -> list[Column]:
        """Returns the columns of the titles between commas. Raises UserError for an unknown one."""
        return [cls.of(each.strip()) for each in text.split(",") if each.strip()]

    @property
    def is_named(self) -> bool:
        """True if the column shows a metric or a parameter, which only some runs have."""
        return self.title not in FACTS

    @property
    def is_metric(self) -> bool:
        """True if the column needs the runs' logs."""
        return self.title.startswith("metric:")

    def value(self, run: Run, status: RunState) -> Any:
        """Returns the column's value for a run; of a metric of several tasks its lowest and highest
        last value, and of a parameter each value once."""
        if self.title in FACTS:
            return run_facts(run, status)[FACTS[self.title]]
        from fairway_runner.runs.results import task_results  # most lists do not show results

        kind, _, name = self.title.partition(":")
        tasks = [task for task in task_results(run, status.state) if not task.is_last]
        if kind == "param":
            params = [task.params[name] for task in tasks if name in task.params]
            each_once = list({repr(value): value for value in params}.values())  # 1 is not True
            return each_once[0] if len(each_once) == 1 else each_once or None
        if name not in run.record.metrics:
            return None
        # Each log is read once: a task that prints goes on meanwhile.
        found = [task.metrics for task in tasks]
        values = [each[name] for each in found if name in each]
        if not values or len(tasks) == 1:
            return values[0] if values else None
        return [min(values), max(values)]

    def known(self, run: Run, status: RunState, findings: list[Finding]) -> Any:
        """Returns its value for a run; None if it is unreadable, which is added to the findings:
        one run must not hide the others."""
        found: list[Finding] = []
        with _readable(found):
            return self.value(run, status)
        found = [replace(each, message=f"{run.id}: {each.message}") for each in found]
        findings += [each for each in found if each not in findings]
        return None


def list_facts(found: Found, columns: Sequence[Column], findings: list[Finding]) -> dict[str, Any]:
    """Returns a run's facts, with those of `columns`; see `Column.known` for the findings."""
    shown = {column.title: column.known(*found, findings) for column in columns}
    return run_facts(*found) | ({"columns": shown} if columns else {})


def sort_by_value(valued: Sequence[tuple[Any, T]], *, descending: bool = False) -> list[T]:
    """Sorts things by their values in a column: numbers before text, and of several values the
    last; those without one come first, in either order."""
    lacking: list[T] = []
    there: list[tuple[tuple[int, Any], T]] = []
    for value, each in valued:
        last = value[-1] if isinstance(value, list) and value else value
        if last is None or last == []:
            lacking.append(each)
        elif isinstance(last, bool | int | float):
            there.append(((0, last), each))
        else:
            there.append(((1, str(last).lower()), each))
    there.sort(key=itemgetter(0), reverse=descending)
    return lacking + [each for _, each in there]


def require_states(states: Iterable[str]) -> None:
    """Raises UserError for a word that is no state of a run."""
    known = sorted(STATES)
    for state in states:
        if state not in known:
            message = f"`{state}` is not a state of a run"
            raise UserError.of("unknown-state", message, did_you_mean(state, known))


@dataclass(frozen=True)
class RunFilter:
    """Conditions for a run, all of which must hold, as must all `tags`. `since` and `before` are in
    seconds since 1970, `text` is searched for, ignoring case, in id, tags, note and job file. With
    `behind`, runs of exactly the time `before` are included too if their ids come after it."""

    states: Collection[str] = ()
    name: str | None = None
    target: str | None = None
    tags: Collection[str] = ()
    since: float | None = None
    text: str = ""
    before: float | None = None
    behind: str | None = None

    def takes_record(self, record: RunRecord) -> bool:
        """Returns True if the run's record meets the conditions."""
        return (
            (self.name is None or record.name == self.name)
            and (self.target is None or record.target == self.target)
            and (self.since is None or record.created >= self.since)
            and (self.before is None or record.created <= self.before)
            and (record.created != self.before or (self.behind or record.id) < record.id)
        )

    def takes_words(self, run: Run, labels: Labels) -> bool:
        """Returns True if the run's tags and texts meet the conditions."""
        if not set(self.tags) <= set(labels.tags):
            return False
        text = self.text.lower()
        if text in "\n".join((run.id, labels.note, *labels.tags)).lower():
            return True
        with suppress(OSError):
            job = (run.folder / "job.yaml").read_text(encoding="utf-8", errors="replace")
            return text in job.lower()
        return False


@dataclass
class Listing:
    """Runs with their states, in order, and findings about others."""

    runs: list[Found] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)


def select(
    store: RunStore,
    wanted: RunFilter | None = None,
    limit: int | None = None,
    sort: Column | None = None,
    *,
    descending: bool = False,
    refresh: Callable[[list[Run]], list[Finding]] | None = None,
) -> Listing:
    """Returns the runs that meet all of the `wanted` conditions: the last `limit` of their order,
    which ends with the newest, or with the highest value of the column to `sort` by. `refresh`
    first updates those that may be among them."""
    wanted, listing = wanted or RunFilter(), Listing()
    runs = _fitting(store, wanted, listing)
    last = limit if sort is None else None
    if refresh is not None:
        known = list(runs if wanted.states else islice(runs, last))
        listing.findings += refresh(known)
        runs = iter(known)
    for run in runs:
        with _readable(listing.findings):
            status = run.status
            if not wanted.states or status.state in wanted.states:
                listing.runs.append((run, status))
        if len(listing.runs) == last:
            break
    listing.runs.reverse()
    if sort is not None:
        valued = [(sort.known(*each, listing.findings), each) for each in listing.runs]
        listing.runs = sort_by_value(valued, descending=descending)
        listing.runs = listing.runs[-limit:] if limit else listing.runs
    return listing


def _fitting(store: RunStore, wanted: RunFilter, listing: Listing) -> Iterator[Run]:
    """Yields the runs whose records and texts match, the newest first."""
    runs = []
    for run in store.unsorted():
        with _readable(listing.findings):
            if wanted.takes_record(run.record):
                runs.append(run)
    for run in sorted(runs, key=lambda run: (-run.record.created, run.id)):
        with _readable(listing.findings):
            if wanted.takes_words(run, run.labels):
                yield run


@contextmanager
def _readable(findings: list[Finding]) -> Iterator[None]:
    """Adds errors of reading a run to the findings; one that was just removed is none."""
    try:
        yield
    except UserError as error:
        findings += [each for each in error.findings if each.id != "unknown-run"]
    except FileNotFoundError:
        pass


@dataclass
class Spending:
    """Usage of each run; findings on targets that are away, and on unreadable runs."""

    usages: list[RunUsage]
    unanswered: list[Finding] = field(default_factory=list)
    damaged: list[Finding] = field(default_factory=list)


def usage_of_runs(
    store: RunStore,
    prices: Prices,
    *,
    ask: Iterable[Target] | None = None,
    environment: str | None = None,
    since: float | None = None,
    region: str | None = None,
) -> Spending:
    """Returns the usage of runs submitted `since`, on targets of one environment or any. Runs that
    other machines have submitted to the targets to `ask` get a folder here; targets of another
    environment are left out. If `ask` is None no target is asked, and runs count as last seen."""
    from fairway_runner.runs.results import task_results  # lists need neither
    from fairway_runner.runs.usage import environment_of, region_of, usage_of

    unanswered: list[Finding] = []
    if ask is not None:
        for target in (each for each in ask if environment in (None, each.environment)):
            try:
                unanswered += [] if runs_here(target.engine) else engine_for(target).adopt(store)
            except UserError as error:
                unanswered += error.findings
        unanswered += refresh_all(store.unsorted())
    listing = select(store, RunFilter(since=since))
    usages, known = [], cache(region_of)
    for run, _ in listing.runs:
        with _readable(listing.findings):
            if environment in (None, environment_of(run)):
                usages.append(usage_of(run, task_results(run), lambda: prices, region, known))
    return Spending(usages, unanswered, listing.findings)
