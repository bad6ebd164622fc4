"""No test is skipped in CI because a program is missing."""

import os
from pathlib import Path

import pytest

pytestmark = pytest.mark.integration

pytest_plugins = ["pytester"]

TESTS = """
import pytest

@pytest.fixture(scope="module")
def program():
    pytest.skip("dot is missing: apt-get install -y graphviz")

def test_by_a_fixture(program): pass

def test_by_the_same_fixture(program): pass

def test_by_itself(): pytest.skip("dot is missing")

@pytest.mark.skipif(True, reason="terraform is not on PATH")
def test_by_a_mark(): pass

def test_not_on_this_engine(): pytest.skip("refused there")

def test_as_root(): pytest.skip("needs root: each node has a host name of its own")

@pytest.mark.xfail
def test_known(): assert False
"""


@pytest.mark.parametrize(
    ("user", "outcomes"),
    [
        (0, {"errors": 4, "failed": 2, "skipped": 1}),
        (1000, {"errors": 4, "failed": 1, "skipped": 2}),
    ],
)
def test_skips_for_missing_programs_are_failures_in_ci(
    pytester: pytest.Pytester,
    monkeypatch: pytest.MonkeyPatch,
    repository: Path,
    user: int,
    outcomes: dict[str, int],
) -> None:
    monkeypatch.setenv("CI", "true")
    monkeypatch.setattr(os, "geteuid", lambda: user)
    done = _run(pytester, repository)
    assert done.parseoutcomes() == {**outcomes, "xfailed": 1}
    reason = "skipped, which is a failure in CI: dot is missing: apt-get install -y graphviz"
    done.stdout.fnmatch_lines([f"*{reason}", "*skipped, which is a failure in CI: no torch"])


@pytest.mark.parametrize("value", ["", None])
def test_skips_for_missing_programs_are_allowed_outside_of_ci(
    pytester: pytest.Pytester,
    monkeypatch: pytest.MonkeyPatch,
    repository: Path,
    value: str | None,
) -> None:
    monkeypatch.delenv("CI", raising=False)
    if value is not None:
        monkeypatch.setenv("CI", value)
    assert _run(pytester, repository).parseoutcomes() == {"skipped": 7, "xfailed": 1}


def _run(pytester: pytest.Pytester, repository: Path) -> pytest.RunResult:
    pytester.makeconftest((repository / "tests/suite/skips.py").read_text())
    pytester.makepyfile(
        test_by_one=TESTS,
        test_module="import pytest\npytest.skip('no torch', allow_module_level=True)",
    )
    return pytester.runpytest_inprocess("-p", "no:cacheprovider", "--continue-on-collection-errors")
