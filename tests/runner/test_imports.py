"""What the commands that are typed most often import: that is most of the time they take."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import MakeRun

_SCRIPT = """
import sys
from fairway_cli.entry import main
sys.argv = ["fairway", *sys.argv[1:]]
try:
    main()
finally:
    print(*sys.modules, sep="\\n", file=sys.stderr)
"""
_HEAVY = {"cdktf", "constructs", "jsii", "azure", "numpy", "rich"}


def _imported(folder: Path, *command: str) -> set[str]:
    run = subprocess.run(
        [sys.executable, "-c", _SCRIPT, *command],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    return set(run.stderr.splitlines())


def _of_ours(modules: set[str]) -> list[str]:
    return sorted(name for name in modules if name.startswith("fairway_"))


# How many modules of ours there may be: each takes about half a millisecond. Before one more is
# let in: does the command need it, or only another branch of it?
@pytest.mark.parametrize(("command", "most"), [(["list"], 47), (["show", "job-a"], 67)])
def test_what_is_read_of_runs_takes_no_models(
    command: list[str], most: int, make_run: MakeRun, tmp_path: Path
) -> None:
    """Nor does Typer need pydantic for the words of the command line."""
    make_run("job-a", [{"log": "loss=1"}])
    imported = _imported(tmp_path, *command)
    assert "fairway_runner.runs.store" in imported
    assert not imported & (_HEAVY | {"pydantic", "jinja2", "ruamel.yaml"})
    assert len(_of_ours(imported)) <= most, _of_ours(imported)


@pytest.mark.parametrize(
    ("sweep", "most"), [("", 114), ("sweep: {points: {grid: {lr: [1, 2]}}}\n", 117)]
)
def test_a_submission_that_is_looked_at_takes_what_it_needs(
    tmp_path: Path, sweep: str, most: int
) -> None:
    """Not the models of steps, nor what plans, moves and resumes runs, nor the sizes of VMs, nor
    what looks for plugins of pydantic in all packages that are installed."""
    job = "name: a\ntemplate: plain\ncommand: echo {{ params.lr }}\nparams: {lr: 0.1}\n"
    (tmp_path / "job.yaml").write_text(job + sweep)
    imported = _imported(tmp_path, "submit", "job.yaml", "--dry-run")
    assert "fairway_runner.submit.submission" in imported
    others = {"fairway_runner.jobs.steps", "fairway_runner.runs.moving", "fairway_agent.plan"}
    others |= {"fairway_core.catalog", "fairway_core.validation", "pty", "tomllib"}
    others |= {"importlib.metadata", "email", "zipfile"}
    assert not imported & (_HEAVY | others | {"logging", "jinja2.meta"})
    assert len(_of_ours(imported)) <= most, _of_ours(imported)


def test_the_end_of_the_program_looks_for_no_garbage(tmp_path: Path) -> None:
    """Else Python goes through all that was imported once more, and then ends anyway."""
    script = _SCRIPT.replace("*sys.modules", "gc.get_freeze_count()").replace(
        "sys\n", "gc, sys\n", 1
    )
    command = [sys.executable, "-c", script, "list"]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert int(run.stderr.splitlines()[-1]) > 10_000
