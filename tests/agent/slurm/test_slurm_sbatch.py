"""How a part of a run is described to sbatch."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fairway_agent.control import Part
from fairway_agent.slurm import submit
from fairway_agent.slurm.submit import Node, Resources
from fairway_agent.spec import RunPlan, Staged
from fairway_boot.files import Fault

FOLDER = Path("/data/fairway/runs/job-abc")
PLAN = RunPlan("job-abc", str(FOLDER / "code"), grace=25.0)
PLAIN = Resources(partition="nd", feature="", gpus=0, cpus=96, nice=1000)


def words(part: Part, plan: dict[str, Any] | None = None, **more: Any) -> list[str]:
    resources = more.pop("resources", PLAIN)
    dependency = more.pop("dependency", "")
    made = replace(PLAN, **(plan or {}))
    return submit.arguments(FOLDER, part, 2, made, resources, dependency, **more)


def test_a_task_is_a_job_of_whole_nodes() -> None:
    found = words(Part("tasks", 0, [0], 4, 8))
    for word in ("--nodes=4", "--ntasks-per-node=8", "--exclusive", "--requeue", "--nice=1000"):
        assert word in found
    assert "--comment=fairway job-abc tasks 0 2" in found
    assert "--signal=B:USR1@85" in found
    assert not [word for word in found if word.startswith(("--array", "--time", "--gres"))]


def test_a_sweep_is_an_array_with_its_limit() -> None:
    part = Part("tasks", 0, [0, 1, 2, 5, 7, 8], 1, 1)
    assert "--array=0-2,5,7-8" in words(part)
    assert "--array=0-2,5,7-8%4" in words(part, {"max_parallel": 4})


def test_gpus_features_and_dependencies() -> None:
    resources = Resources("nd", "Standard_ND96isr_H100_v5", 8, 96, 500)
    found = words(Part("tasks", 0, [0], 1, 8), resources=resources, dependency="afterok:7")
    assert "--constraint=Standard_ND96isr_H100_v5" in found
    assert "--gres=gpu:8" in found
    assert found[-2:] == ["--dependency=afterok:7", "--kill-on-invalid-dep=yes"]


NODE = Node(("nd96",), 8, 96, 1_900_000)


@pytest.mark.parametrize(
    ("gpus", "cores", "found", "part"),
    [
        (1, None, ["--cpus-per-task=12", "--mem=237500M", "--gres=gpu:1"], 0.125),
        (2, 30, ["--cpus-per-task=30", "--mem=593750M", "--gres=gpu:2"], 0.3125),
        (None, 24, ["--cpus-per-task=24", "--mem=475000M"], 0.25),
    ],
)
def test_a_part_of_a_node(gpus: int, cores: int, found: list[str], part: float) -> None:
    """As much memory as of the CPUs; what the target says of GPUs is of whole nodes."""
    resources = Resources("nd", "", 8, 96, 500, node=NODE)
    one = Part("tasks", 0, [0, 1], 1, 4, gpus=gpus, cores=cores)
    said = words(one, resources=resources)
    assert said[said.index(found[0]) : said.index("--wait-all-nodes=1")] == found
    assert "--ntasks-per-node=1" in said
    assert not {"--exclusive", "--mem=0", "--overcommit", "--gres=gpu:8"} & set(said)
    assert resources.part_of(one.wanted) == part
    assert resources.part_of(None) is None


def test_more_gpus_than_slurm_knows_of() -> None:
    resources = Resources("nd", "", 8, 96, 500, node=replace(NODE, gpus=0))
    with pytest.raises(Fault, match="a task needs 1 GPU, and Slurm knows of 0 GPUs a node in"):
        words(Part("tasks", 0, [0], 1, 1, gpus=1), resources=resources)
    few = Resources("nd", "", 8, 96, 500, node=replace(NODE, cpus=4))
    assert "--cpus-per-task=1" in words(Part("tasks", 0, [0], 1, 9, gpus=1), resources=few)


def test_accounts_and_qualities_of_service_are_named_where_the_job_does() -> None:
    part = Part("tasks", 0, [0], 1, 8)
    resources = Resources("nd", "", 0, 96, 500, account="vision", qos="urgent")
    assert {"--account=vision", "--qos=urgent"} <= set(words(part, resources=resources))
    assert not [word for word in words(part) if word.startswith(("--account", "--qos"))]


@pytest.mark.parametrize(
    ("plan", "has_setup", "minutes"),
    [
        ({"timeout": 60.0}, False, 8),
        ({"timeout": 43_200.0, "retries": 2}, False, 2168),
        ({"timeout": 60.0}, True, 68),
        ({"timeout": 60.0, "staged": (Staged("in", "c", "p", "shared"),)}, False, 68),
    ],
)
def test_slurms_limit_leaves_room_for_the_tasks_own(
    plan: dict[str, Any], has_setup: bool, minutes: int
) -> None:
    found = words(Part("tasks", 0, [0], 1, 1), plan, has_setup=has_setup)
    assert f"--time={minutes}" in found


def test_limits_stay_within_what_sbatch_takes() -> None:
    century = 36_500 * 86_400.0
    found = words(Part("tasks", 0, [0], 1, 1), {"timeout": century, "grace": century, "retries": 9})
    assert "--signal=B:USR1@65535" in found  # the most, by its manual
    [limit] = [int(word[7:]) for word in found if word.startswith("--time=")]
    assert limit * 60 < 2**31


def test_more_ranks_than_cores_are_asked_for_as_such() -> None:
    few = Resources("nd", "", 0, 4, 1000)
    assert "--overcommit" in words(Part("tasks", 0, [0], 1, 8), resources=few)
    assert "--overcommit" not in words(Part("tasks", 0, [0], 1, 4), resources=few)


def test_the_script_is_bash_whatever_the_folder_is_called(tmp_path: Path) -> None:
    folder = tmp_path / "it's $(touch owned) here"
    folder.mkdir()
    text = submit.batch_script(folder, Part("tasks", 0, [4], 1, 1), 0)
    script = tmp_path / "script.sh"
    # What it would start says what it was given.
    script.write_text(text.replace('exec "$python" -s', "printf '%s\\n'"))
    done = subprocess.run(["bash", script], cwd=folder, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[2:] == [str(folder), "tasks", "0", "0", "4"]
    assert list(folder.iterdir()) == []
