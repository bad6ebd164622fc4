"""Tiers of the test suite, the tests that a change touches, and skips, which fail in CI."""

import json
import os
from pathlib import Path

import pytest
from changed import ROOT, touched_tests

pytestmark = pytest.mark.integration

pytest_plugins = ["pytester"]

MODULES = {
    "unit": "def test_quick(): pass",
    "program": "import pytest\npytestmark = pytest.mark.integration\ndef test_program(): pass",
    "night": "import pytest\npytestmark = pytest.mark.nightly\nraise ImportError",
    "mixed": "import pytest\n@pytest.mark.nightly\ndef test_long(): pass\ndef test_short(): pass",
    "slow": "def test_slow(): pass",
}
SLOW = {"files": {}, "tests": {"test_slow.py::test_slow": 0.3}}


@pytest.fixture
def suite(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """Returns a suite with a module of each tier, one of which cannot be imported."""
    import tiers

    monkeypatch.setattr(tiers, "TESTS", pytester.path)
    monkeypatch.setattr(tiers, "DURATIONS", pytester.path / "durations.json")
    (pytester.path / "durations.json").write_text(json.dumps(SLOW))
    monkeypatch.setattr(tiers, "NIGHTLY", ("folder",))
    for name, text in MODULES.items():
        (pytester.path / f"test_{name}.py").write_text(text)
    folder = pytester.mkdir("folder")
    (folder / "test_within.py").write_text("def test_within(): pass")
    return pytester


@pytest.mark.parametrize(
    ("words", "outcomes"),
    [
        (["--tier", "fast"], {"passed": 2, "deselected": 2}),
        (["--tier", "usual"], {"passed": 4, "deselected": 1}),
        (["--tier", "all"], {"passed": 6, "errors": 1}),
        (["--tier", "usual", "folder/test_within.py"], {"passed": 1}),  # a nightly module is named
    ],
)
def test_tier_runs_its_tests_and_the_named_modules(
    suite: pytest.Pytester, words: list[str], outcomes: dict[str, int]
) -> None:
    options = ("-p", "no:cacheprovider", "--continue-on-collection-errors")
    done = suite.runpytest_inprocess(*options, *words, plugins=["tiers"])
    assert done.parseoutcomes() == outcomes


def test_tier_fast_records_no_durations(suite: pytest.Pytester) -> None:
    """It would forget the tests that it leaves out."""
    done = suite.runpytest_inprocess("--tier", "fast", "--record-durations", plugins=["tiers"])
    assert done.ret == pytest.ExitCode.USAGE_ERROR
    assert json.loads((suite.path / "durations.json").read_text()) == SLOW


TESTS = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "tests").rglob("test_*.py"))
FIELDS, COMMAND = "constructs/fairway_core/fields.py", "runner/fairway_cli/commands/runs.py"


@pytest.mark.parametrize(
    ("changed", "test", "is_touched"),
    [
        (FIELDS, "core/test_fields.py", True),
        (FIELDS, "runner/test_job_files.py", True),  # jobs have durations
        (FIELDS, "agent/test_outputs.py", False),
        (COMMAND, "runner/test_list_command.py", True),  # the test runs the program
        ("tests/suite/properties.py", "core/test_fields.py", True),
        ("tests/suite/properties.py", "core/test_catalog.py", False),
        # Imported by their conftest.py, by the test itself, and by another helper.
        ("tests/suite/api_server.py", "agent/kubernetes/test_kubernetes_task_state.py", True),
        ("tests/suite/programs.py", "constructs/test_role_assignments.py", True),
        ("tests/suite/targets.py", "runner/test_launchers_image.py", True),
        ("docs/batch.md", "core/test_fields.py", False),
        ("docs/batch.md", "packaging/test_words.py", True),
    ],
)
def test_change_touches_the_tests_that_import_it(changed: str, test: str, is_touched: bool) -> None:
    assert f"tests/{test}" in TESTS
    assert bool(touched_tests([changed], [f"tests/{test}"])) is is_touched


def test_change_of_an_engine_touches_no_end_to_end_test_of_another() -> None:
    tests = [test for test in TESTS if test.startswith("tests/end_to_end/")]
    touched = touched_tests(["runner/fairway_agent/slurm/jobs.py"], tests)
    folders = {Path(test).parts[2] for test in touched}
    assert folders == {"slurm", "every_engine"}


def test_change_of_a_helper_touches_the_tests_below_it() -> None:
    tests = [test for test in TESTS if test.startswith(("tests/runner/", "tests/suite/"))]
    touched = touched_tests(["tests/runner/web/conftest.py"], tests)
    web = [test for test in tests if test.startswith("tests/runner/web/")]
    assert touched == [*web, "tests/suite/test_imported_names.py"]


SKIPPING = """
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
    done = _run_skipping(pytester, repository)
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
    assert _run_skipping(pytester, repository).parseoutcomes() == {"skipped": 7, "xfailed": 1}


def _run_skipping(pytester: pytest.Pytester, repository: Path) -> pytest.RunResult:
    pytester.makeconftest((repository / "tests/suite/skips.py").read_text())
    pytester.makepyfile(
        test_by_one=SKIPPING,
        test_module="import pytest\npytest.skip('no torch', allow_module_level=True)",
    )
    return pytester.runpytest_inprocess("-p", "no:cacheprovider", "--continue-on-collection-errors")
