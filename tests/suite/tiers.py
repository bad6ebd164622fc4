"""The three tiers of the suite, and the distribution of its files among workers.

`--tier fast` leaves out the tests with the marks `integration` and `nightly`, and those that took
longer than `SLOW` when they were recorded; `--tier usual` those with `nightly`. A folder of
`INTEGRATION` or `NIGHTLY` counts as marked unless the command line names it. The mark of a module
is read without importing it, as importing all modules takes 20 s.
"""

import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest
from _pytest.terminal import TerminalReporter
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

TESTS = Path(__file__).resolve().parents[1]
DURATIONS = TESTS / "durations.json"
"""Seconds that files, of a second or more, and slow tests took when `--record-durations` was given:
of a test with parameters, its slowest row."""
SLOW = 0.2
"""Seconds from which a test is slow: a hundred such tests take as long as all others."""

TIERS = ("fast", "usual", "all")
INTEGRATION = ("constructs", "end_to_end", "runner/web/browser", "simulator", "stacks")
NIGHTLY = ("simulator",)

MARKS = (
    "integration: starts a cluster, a browser or other programs; not in `bin/test --fast`",
    "nightly: in `bin/test --all` alone",
    "one_engine(name, …): a test of every engine that `bin/test` runs on these engines alone",
)

_MARKED = re.compile(r"^pytestmark = .*\bpytest\.mark\.(integration|nightly)\b", re.MULTILINE)
_ENGINE = re.compile(r"every_engine/.*\[(local|ssh|slurm|batch|kubernetes)\b")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the options that bin/test passes."""
    group = parser.getgroup("tiers")
    group.addoption("--tier", choices=TIERS, default="all", help="the tests to run: %(choices)s")
    group.addoption(
        "--record-durations",
        action="store_true",
        help=f"write {DURATIONS.name} from this run",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Registers the marks."""
    for mark in MARKS:
        config.addinivalue_line("markers", mark)
    if config.getoption("record_durations") and config.getoption("tier") == "fast":
        raise pytest.UsageError("--record-durations: --tier fast leaves out the slow tests")


def _left_out(config: pytest.Config) -> frozenset[str]:
    left_out = {"fast": {"integration", "nightly"}, "usual": {"nightly"}, "all": set[str]()}
    return frozenset(left_out[config.getoption("tier")])


def _tiers_of(path: Path) -> Iterator[str]:
    """Yields the marks that apply to an entire folder or module."""
    if not path.is_relative_to(TESTS):
        return
    name = path.relative_to(TESTS).as_posix()
    for tier, folders in (("integration", INTEGRATION), ("nightly", NIGHTLY)):
        if any(name == folder or name.startswith(f"{folder}/") for folder in folders):
            yield tier
    if path.name.startswith("test_") and path.suffix == ".py":
        yield from _MARKED.findall(path.read_text("utf-8"))


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Ignores folders and modules of other tiers."""
    left_out = _left_out(config)
    return True if left_out and left_out.intersection(_tiers_of(collection_path)) else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselects single tests of other tiers, and sorts the slowest files first."""
    left_out = _left_out(config)
    recorded = json.loads(DURATIONS.read_text("utf-8"))
    slow = recorded["tests"] if config.getoption("tier") == "fast" else {}
    kept: list[pytest.Item] = []
    deselected: list[pytest.Item] = []
    for item in items:
        if left_out.intersection(_marks(item)) or item.nodeid.partition("[")[0] in slow:
            deselected.append(item)
        else:
            kept.append(item)
    if deselected:
        config.hook.pytest_deselected(items=deselected)
    kept.sort(key=lambda item: -recorded["files"].get(_scope(item.nodeid), 0.0))
    items[:] = kept


def _marks(item: pytest.Item) -> Iterator[str]:
    yield from (
        mark.name for mark in item.iter_markers() if mark.name in ("integration", "nightly")
    )
    if one := item.get_closest_marker("one_engine"):
        engine = _ENGINE.search(item.nodeid)
        if engine and engine[1] not in one.args:
            yield "nightly"


def _scope(test: str) -> str:
    """Returns what one worker runs: the tests of a file, or those of every_engine on one engine.

    They share what the fixtures of the file or the engine start.
    """
    if engine := _ENGINE.search(test):
        return f"tests/end_to_end/every_engine[{engine[1]}]"
    return test.partition("::")[0]


class _ByFile(LoadScopeScheduling):
    def _split_scope(self, nodeid: str) -> str:
        return _scope(nodeid)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling:
    """Gives a worker one file at a time, in the order of collection."""
    config.option.loadscopereorder = False
    return _ByFile(config, log)


def pytest_terminal_summary(terminalreporter: TerminalReporter, config: pytest.Config) -> None:
    """Prints the seconds of each folder, as information only."""
    reports = [
        report
        for kind in ("passed", "failed", "error", "skipped", "")
        for report in terminalreporter.stats.get(kind, ())
        if isinstance(report, pytest.TestReport)
    ]
    if config.getoption("xmlpath"):  # set by bin/test; a single file needs no summary
        terminalreporter.section("seconds per folder")
        for folder, seconds in _sums(
            reports, lambda test: str(Path(test.partition("::")[0]).parent)
        ):
            terminalreporter.write_line(f"{seconds:8.1f} {folder}")
    if config.getoption("record_durations"):
        _record(reports)


def _record(reports: list[pytest.TestReport]) -> None:
    """Writes the seconds of these reports, and those known of files that did not run."""
    known = json.loads(DURATIONS.read_text("utf-8"))
    ran = {report.nodeid.partition("::")[0] for report in reports}
    fast = [
        report
        for report in reports
        if not {"integration", "nightly"} & report.keywords.keys()
        and not any(_tiers_of(TESTS.parent / report.nodeid.partition("::")[0]))
    ]
    slowest_last = reversed(_sums(fast, lambda test: test))
    tests = {test.partition("[")[0]: seconds for test, seconds in slowest_last}
    recorded = {}
    for kind, found, least in (
        ("files", dict(_sums(reports, _scope)), 1.0),
        ("tests", tests, SLOW),
    ):
        for name, seconds in known[kind].items():
            file = re.split(r"\[|::", name)[0]
            if file not in ran and (TESTS.parent / file).exists():
                found.setdefault(name, seconds)
        recorded[kind] = {
            name: round(found[name], 2) for name in sorted(found) if found[name] >= least
        }
    DURATIONS.write_text(json.dumps(recorded, indent=0) + "\n", "utf-8")


def _sums(
    reports: Iterable[pytest.TestReport], key: Callable[[str], str]
) -> list[tuple[str, float]]:
    """Returns the seconds of each group of tests, the longest first."""
    sums: defaultdict[str, float] = defaultdict(float)
    for report in reports:
        sums[key(report.nodeid)] += report.duration
    return sorted(sums.items(), key=lambda each: -each[1])
