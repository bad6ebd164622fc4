"""A run that an earlier release recorded, as it lay on disk, is read by this one.

The folder beside this file was written by the last commit before the agent was a package.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from fairway_agent import job_facts, run_files
from fairway_agent.task import Task

if TYPE_CHECKING:
    from conftest import RunFairway

RUN = "before-zwy5jf"
HERE = Path(__file__).parent / "earlier_release"

# As that release's supervisor did: it holds the lock, and moves the states into place at the end.
_SUPERVISE = """
import fcntl, pathlib, sys
run, final = map(pathlib.Path, sys.argv[1:])
lock = (run / "lock").open("a")
fcntl.flock(lock, fcntl.LOCK_EX)
print("watched", flush=True)
sys.stdin.read()
(final / "tasks/0/state.json").replace(run / "tasks/0/state.json")
(final / "state.json").replace(run / "state.json")
"""


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


def test_it_ends_right_where_it_runs_during_the_upgrade(
    project: Path, fairway: RunFairway, tmp_path: Path
) -> None:
    run, final = project / ".fairway" / "runs" / RUN, tmp_path / "final"
    (final / "tasks/0").mkdir(parents=True)
    for name in ("state.json", "tasks/0/state.json"):
        (run / name).replace(final / name)
    ended = json.loads((final / "state.json").read_text())
    running = {"state": "running", "ended": None, "tasks": {"running": 1}}
    (run / "state.json").write_text(json.dumps(ended | running))
    (run / "tasks/0/state.json").write_text(
        '{"state": "running", "attempt": 0, "started": 1795372473.99, "session": 29055}'
    )
    words = [sys.executable, "-c", _SUPERVISE, run, final]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as supervisor:
        assert supervisor.stdout is not None
        assert supervisor.stdout.readline() == b"watched\n"
        code, shown, _ = fairway(project, "show", RUN, "--json")
        assert (code, json.loads(shown)["state"]) == (0, "running")
        supervisor.communicate()
    assert fairway(project, "wait", RUN)[:2] == (0, f"{RUN} succeeded\n")
    facts = json.loads(fairway(project, "show", RUN, "--json")[1])
    assert (facts["state"], facts["task_list"][0]["exit_code"]) == ("succeeded", 0)


def test_the_last_task_that_had_a_number_is_called_finally(
    project: Path, fairway: RunFairway
) -> None:
    run = project / ".fairway" / "runs" / RUN
    spec = json.loads((run / "tasks.jsonl").read_text())
    (run / "finally.jsonl").write_text(json.dumps({**spec, "index": 1}) + "\n")
    record = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps({**record, "tasks": 2}))
    shutil.copytree(run / "tasks" / "0", run / "tasks" / "1")
    (run / "tasks/1/log.txt").write_text("merged\n")
    tasks = json.loads(fairway(project, "show", RUN, "--json")[1])["task_list"]
    assert [(task["task"], task["state"]) for task in tasks] == [
        (0, "succeeded"),
        ("finally", "succeeded"),
    ]
    assert fairway(project, "logs", RUN, "--task", "finally")[1] == "merged\n"
    assert "[finally] merged" in fairway(project, "logs", RUN)[1]
    assert fairway(project, "fetch", RUN, "--to", "kept")[0] == 0
    assert (project / "kept/finally/model/w").read_text() == "weights\n"
    assert not (project / "kept/1").exists()
    code, _, said = fairway(project, "logs", RUN, "--task", "1")
    assert (code, "its only task is 0, and finally" in said) == (2, True)


def test_its_tasks_find_the_programs_of_this_release(project: Path) -> None:
    """Its plan names a folder of that release, which an upgrade has taken away."""
    run = project / ".fairway" / "runs" / RUN
    [spec] = run_files.read_specs(run / "tasks.jsonl")
    task = Task(run_files.read_plan(run, retry=False), spec, run, run / "tasks" / "0")
    assert shutil.which("fairway-each-node", path=task._contract()["PATH"])


def test_what_its_job_and_target_say_is_read(project: Path) -> None:
    run = project / ".fairway" / "runs" / RUN
    assert job_facts.of_job(run) == job_facts.JobFacts()
    assert job_facts.of_target(run) == job_facts.TargetFacts("local", "local", most_nodes=10_000)
