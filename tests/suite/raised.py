"""The ids of findings and faults that the tests raise, and the declared ones that no test raises.

An id counts as raised if Fairway's code makes its `Finding` or `AgentError` in a process of the
suite, or if the program prints it in an end-to-end test. The declared ids are read from the source.
A run of `bin/test` or `bin/test --all` lists those that no test raised, and fails.
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
MAKERS = {"Finding", "AgentError", "Fault", "of", "check", "_fail", "error", "finding"}
"""The calls whose first argument, or `id=`, is an id."""

_ID = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)+")
_PRINTED = re.compile(r"^(?:\S+ )?(?:error|warning): .* \[([a-z0-9-]+)\]$", re.MULTILINE)
_raised: set[str] = set()


def declared_ids(source: str) -> Iterator[str]:
    """Yields the ids that a module's calls have as literals."""
    for call in ast.walk(ast.parse(source)):
        func = getattr(call, "func", None)
        if getattr(func, "attr", None) in MAKERS or getattr(func, "id", None) in MAKERS:
            assert isinstance(call, ast.Call)
            named = [word.value for word in call.keywords if word.arg == "id"]
            for given in (*call.args[:1], *named):
                if isinstance(given, ast.Constant) and isinstance(given.value, str):
                    yield from filter(_ID.fullmatch, [given.value])


def note_printed(text: str) -> None:
    """Records the ids of the findings that a program has printed."""
    _raised.update(_PRINTED.findall(text))


def _record(made: type) -> None:
    """Records the id of each `made` that Fairway's own code makes."""
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
    """Starts to record the ids raised in this process."""
    from fairway_boot.files import AgentError

    _record(AgentError)
    if sys.version_info >= (3, 11):  # noqa: UP036 (hosts have 3.10, and no fairway_core)
        from fairway_core.findings import Finding

        _record(Finding)


def pytest_testnodedown(node: Any) -> None:
    """Adds the ids that the tests of a finished worker have raised."""
    _raised.update(getattr(node, "workeroutput", {}).get("raised", ()))


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Passes a worker's ids to the main process, which fails if any declared id was not raised."""
    config = session.config
    if hasattr(config, "workeroutput"):
        config.workeroutput["raised"] = sorted(_raised)
    elif session.exitstatus == 0 and _unraised(config):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: TerminalReporter, config: pytest.Config) -> None:
    """Lists the ids that no test raised."""
    if ids := _unraised(config):
        terminalreporter.section("ids that no test raises")
        terminalreporter.write_line(" ".join(ids))


def _unraised(config: pytest.Config) -> list[str]:
    """Returns the declared ids that no test raised, or none if only some tests ran."""
    option = config.option
    some = config.args_source == config.ArgsSource.ARGS or option.keyword
    if some or option.tier == "fast" or option.collectonly or not option.xmlpath:
        return []
    files = [file for source in SOURCES for file in (ROOT / source).rglob("*.py")]
    declared = {each for file in files for each in declared_ids(file.read_text("utf-8"))}
    return sorted(declared - _raised)
