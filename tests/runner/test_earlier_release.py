"""A run that an earlier release recorded, as it lay on disk, is read by this one.

The folder beside this file was written by the last commit before the agent was a package.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from fairway_agent import run_files
from fairway_agent.task import Task

if TYPE_CHECKING:
    from conftest import RunFairway

RUN = "before-zwy5jf"
HERE = Path(__file__).parent / "earlier_release"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project that has that run."""
    (tmp_path / "fairway.yaml").write_text("targets: []\n")
    shutil.copytree(HERE / RUN, tmp_path / ".fairway" / "runs" / RUN)
    return tmp_path


def test_it_is_listed_shown_and_fetched(project: Path, fairway: RunFairway) -> None:
    code, listed, _ = fairway(project, "list", "--json")
    assert code == 0
    assert [(run["run_id"], run["state"]) for run in json.loads(listed)] == [(RUN, "succeeded")]
    code, shown, _ = fairway(project, "show", RUN, "--json")
    facts = json.loads(shown)
    assert (code, facts["state"]) == (0, "succeeded")
    assert facts["task_list"][0]["metrics"] == {"loss": 0.5}
    assert fairway(project, "fetch", RUN, "--to", "kept")[0] == 0
    assert (project / "kept/0/model/w").read_text() == "weights\n"
    assert (project / "kept/0/log.txt").read_text() == "loss=0.5\n"


def test_its_tasks_find_the_programs_of_this_release(project: Path) -> None:
    """Its plan names a folder of that release, which an upgrade has taken away."""
    run = project / ".fairway" / "runs" / RUN
    [spec] = run_files.read_specs(run / "tasks.jsonl")
    task = Task(run_files.read_plan(run, retry=False), spec, run, run / "tasks" / "0")
    assert shutil.which("fairway-each-node", path=task._contract()["PATH"])
