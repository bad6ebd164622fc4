"""The ids of findings and faults that the tests raise, and the declared ones that none does.

An id is raised where code of Fairway makes its `Finding` or `Fault` in a process of the suite, or
where the program prints it as an end-to-end test's. The declared ids are read from the source. A
run of `bin/test` or `bin/test --all` names those that no test raised, and fails.
"""

import ast
import re
import sys
from collections.abc import Iterator
from functools import wraps
from pathlib import Path
from typing import Any

import pytest
from _pytest.terminal import TerminalReporter

ROOT = Path(__file__).resolve().parents[2]
SOURCES = (
    "constructs/fairway_core",
    "constructs/fairway_constructs",
    "stacks/fairway_stacks",
    "runner",
)
MAKERS = {"Finding", "Fault", "of", "check", "_fail", "error", "finding"}
"""The calls whose first argument, or `id=`, is an id."""

_ID = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)+")
_PRINTED = re.compile(r"^(?:\S+ )?(?:error|warning): .* \[([a-z0-9-]+)\]$", re.MULTILINE)
_raised: set[str] = set()


def declared_ids(source: str) -> Iterator[str]:
    """The ids that a module's calls give as text."""
    for call in ast.walk(ast.parse(source)):
        func = getattr(call, "func", None)
        if getattr(func, "attr", None) in MAKERS or getattr(func, "id", None) in MAKERS:
            assert isinstance(call, ast.Call)
            named = [word.value for word in call.keywords if word.arg == "id"]
            for given in (*call.args[:1], *named):
                if isinstance(given, ast.Constant) and isinstance(given.value, str):
                    yield from filter(_ID.fullmatch, [given.value])


def note_printed(text: str) -> None:
    """Takes the ids of the findings that a program has printed."""
    _raised.update(_PRINTED.findall(text))


def _record(made: type) -> None:
    """Notes the id of each `made` that Fairway's own code makes."""
    init: Any = made.__init__  # type: ignore[misc]

    @wraps(init)
    def recording(self: object, id: str, *args: Any, **named: Any) -> None:  # noqa: A002
        frame = sys._getframe(1)
        while frame.f_back and frame.f_globals["__name__"] == "fairway_core.findings":
            frame = frame.f_back
        if frame.f_globals["__name__"].startswith("fairway_"):
            _raised.add(id)
        init(self, id, *args, **named)

    made.__init__ = recording  # type: ignore[misc]


def pytest_configure() -> None:
    """Records what this process raises."""
    from fairway_boot.files import Fault

    _record(Fault)
    if sys.version_info >= (3, 11):  # noqa: UP036 (hosts have 3.10, and no fairway_core)
        from fairway_core.findings import Finding

        _record(Finding)


def pytest_testnodedown(node: Any) -> None:
    """Takes what the tests of a worker that ends have raised."""
    _raised.update(getattr(node, "workeroutput", {}).get("raised", ()))


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Hands what a worker's tests raised to the run's own process, which fails for what is left."""
    config = session.config
    if hasattr(config, "workeroutput"):
        config.workeroutput["raised"] = sorted(_raised)
    elif session.exitstatus == 0 and _unraised(config):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: TerminalReporter, config: pytest.Config) -> None:
    """Names the ids that no test raised."""
    if ids := _unraised(config):
        terminalreporter.section("ids that no test raises")
        terminalreporter.write_line(" ".join(ids))


def _unraised(config: pytest.Config) -> list[str]:
    """The declared ids that no test raised; none for a run of only some tests."""
    option = config.option
    some = config.args_source == config.ArgsSource.ARGS or option.keyword
    if some or option.tier == "fast" or option.collectonly or not option.xmlpath:
        return []
    files = [file for source in SOURCES for file in (ROOT / source).rglob("*.py")]
    declared = {each for file in files for each in declared_ids(file.read_text("utf-8"))}
    return sorted(declared - _raised)
