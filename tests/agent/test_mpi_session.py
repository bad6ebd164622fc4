"""Where MPI's launchers keep what they know: in a folder of the attempt's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairway_agent import scratch
from fairway_agent.fanout import launchers
from fairway_agent.nodes.shared import SshNodes
from fairway_agent.spec import RunPlan, TaskSpec
from fairway_agent.task import launch
from fairway_agent.task.task import Task

BOTH = {"OMPI_MCA_orte_tmpdir_base": "/x", "PRTE_MCA_prte_tmpdir_base": "/x"}


def _told(environment: dict[str, str]) -> dict[str, str]:
    found = launchers.session(Path("/x"), environment)
    return {name: value for name, value in found.items() if name.endswith("_tmpdir_base")}


def test_open_mpi_4_and_5_are_told() -> None:
    assert _told({"TMPDIR": "/y"}) == BOTH


def test_a_run_that_a_task_submits_has_a_folder_of_its_own() -> None:
    """That of the task goes with it, and the run may go on."""
    outer = launchers.session(Path("/of-the-task"), {})
    assert _told(outer) == BOTH
    said = {**outer, "OMPI_MCA_orte_tmpdir_base": "/mine"}
    assert _told(said) == {"PRTE_MCA_prte_tmpdir_base": "/x"}


@pytest.mark.parametrize("kind", ["", "_local", "_remote"])
@pytest.mark.parametrize("family", ["OMPI_MCA_orte", "PRTE_MCA_prte"])
def test_mpi_session_keeps_a_folder_set_by_the_user(family: str, kind: str) -> None:
    found = _told({f"{family}{kind}_tmpdir_base": "/mine"})
    other = {name: value for name, value in BOTH.items() if not name.startswith(family)}
    assert found == other


def test_mpi_session_folder_differs_for_each_attempt(tmp_path: Path) -> None:
    """On this machine one that nobody can guess: /tmp is everybody's."""
    task = Task(RunPlan("job-aaaaaa", str(tmp_path)), TaskSpec(0), tmp_path, tmp_path / "t", 0)
    first, second = (launch.contract(task)["PRTE_MCA_prte_tmpdir_base"] for _ in range(2))
    assert first != second
    assert not Path(first).exists()  # mpirun makes it
    there = Task(task.plan, task.spec, tmp_path / "runs" / "r", tmp_path / "t", 3, SshNodes())
    folder = scratch.root() / "tasks" / "job-aaaaaa-0" / "mpi3"
    assert launch.contract(there)["OMPI_MCA_orte_tmpdir_base"] == str(folder)
    assert not folder.exists()
