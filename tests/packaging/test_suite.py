"""The tiers of the suite, and the tests that a change touches."""

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
}


@pytest.fixture
def suite(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A suite with a module of each tier, one of which cannot be imported."""
    import tiers

    monkeypatch.setattr(tiers, "TESTS", pytester.path)
    monkeypatch.setattr(tiers, "DURATIONS", pytester.path / "durations.json")
    monkeypatch.setattr(tiers, "NIGHTLY", ("folder",))
    for name, text in MODULES.items():
        (pytester.path / f"test_{name}.py").write_text(text)
    folder = pytester.mkdir("folder")
    (folder / "test_within.py").write_text("def test_within(): pass")
    return pytester


def _outcomes(suite: pytest.Pytester, *words: str) -> dict[str, int]:
    options = ("-p", "no:cacheprovider", "--continue-on-collection-errors")
    return suite.runpytest_inprocess(*options, *words, plugins=["tiers"]).parseoutcomes()


def test_fast_runs_neither_programs_nor_nightly_tests(suite: pytest.Pytester) -> None:
    assert _outcomes(suite, "--tier", "fast") == {"passed": 2, "deselected": 1}


def test_usual_runs_all_but_nightly_tests(suite: pytest.Pytester) -> None:
    assert _outcomes(suite, "--tier", "usual") == {"passed": 3, "deselected": 1}


def test_suite_tier_all_runs_everything_and_finds_the_broken_module(suite: pytest.Pytester) -> None:
    assert _outcomes(suite, "--tier", "all") == {"passed": 5, "errors": 1}


def test_a_nightly_folder_that_is_named_runs(suite: pytest.Pytester) -> None:
    assert _outcomes(suite, "--tier", "usual", "folder/test_within.py") == {"passed": 1}


TESTS = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "tests").rglob("test_*.py"))


def test_change_of_a_module_touches_tests_of_its_importers_alone() -> None:
    touched = touched_tests(["constructs/fairway_core/fields.py"], TESTS)
    assert "tests/core/test_durations.py" in touched
    assert "tests/runner/test_job_files.py" in touched, "jobs have durations"
    assert "tests/agent/test_outputs.py" not in touched


def test_change_of_an_engine_touches_the_end_to_end_tests_of_no_other() -> None:
    touched = touched_tests(["runner/fairway_agent/slurm/jobs.py"], TESTS)
    folders = {Path(test).parts[2] for test in touched if test.startswith("tests/end_to_end/")}
    assert folders == {"slurm", "every_engine"}


def test_change_of_a_command_touches_tests_that_run_the_program() -> None:
    touched = touched_tests(["runner/fairway_cli/commands/runs.py"], TESTS)
    assert "tests/runner/test_list_command.py" in touched


def test_change_of_a_helper_touches_the_tests_below_it() -> None:
    touched = touched_tests(["tests/runner/web/conftest.py"], TESTS)
    web = [test for test in TESTS if test.startswith("tests/runner/web/")]
    assert touched == [*web, "tests/suite/test_imported_names.py"]


def test_change_of_a_shared_helper_touches_the_tests_that_import_it() -> None:
    touched = touched_tests(["tests/suite/properties.py"], TESTS)
    assert "tests/core/test_durations.py" in touched
    assert "tests/core/test_catalog.py" not in touched


@pytest.mark.parametrize(
    ("helper", "test"),
    [
        (
            "api_server",
            "tests/agent/kubernetes/test_kubernetes_task_state.py",
        ),  # by its conftest.py
        ("programs", "tests/constructs/test_image_names.py"),
        ("targets", "tests/runner/test_launchers_image.py"),  # by another helper
    ],
)
def test_change_of_a_helper_touches_the_tests_whose_helpers_import_it(
    helper: str, test: str
) -> None:
    assert test in touched_tests([f"tests/suite/{helper}.py"], TESTS)


def test_change_of_a_page_touches_no_test_of_code() -> None:
    touched = touched_tests(["docs/batch.md"], TESTS)
    assert touched
    assert {Path(test).parts[1] for test in touched} == {"end_to_end", "packaging"}
