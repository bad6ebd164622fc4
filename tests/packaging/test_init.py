"""The wheel alone: a new project that is created, checked, synthesized and trained."""

import json
import os
import sys
from pathlib import Path

import pytest
from programs import executable, finished

pytestmark = pytest.mark.integration


def _run(fairway: Path, folder: Path, *arguments: str) -> str:
    """Runs the program as for a user who has activated its environment, and returns its output."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("FAIRWAY", "CDKTF", "PYTHON", "VIRTUAL_ENV"))
    }
    path = f"{fairway.parent}:{os.environ['PATH']}"
    done = finished(
        ["fairway", *arguments], cwd=folder, env={**kept, "PATH": path, "HOME": str(folder)}
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    return done.stdout


def test_init_project_is_checked_and_synthesized_and_trains_a_model(
    fairway: Path, tmp_path: Path, repository: Path
) -> None:
    (tmp_path / ".ssh").mkdir()
    key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGg1WIweWjybO9m6h4crvNjt/E/mny4YV2tgV86LxzWu me\n"
    (tmp_path / ".ssh/id_ed25519.pub").write_text(key)
    owner = ("--email", "ada@example.com")
    said = _run(fairway, tmp_path, "init", "lab", "--location", "westeurope", *owner)
    assert "fairway submit jobs/classify/job.yaml --watch" in said
    project = tmp_path / "lab"
    assert (project / ".github/workflows/plan.yml").is_file()
    assert "nothing found" in _run(fairway, project, "check", "lab", "--strict")

    # The command that cdktf.json gives to cdktf; it finds the environment by itself.
    assert json.loads((project / "cdktf.json").read_text())["app"] == "fairway synth"
    written = _run(fairway, project, "synth")
    assert "lab-compute: 3 resources -> cdktf.out/stacks/lab-compute" in written
    compute = json.loads((project / "cdktf.out/stacks/lab-compute/cdk.tf.json").read_text())
    assert compute["output"]["targets"]["value"][0]["name"] == "gpu"
    assert str(repository) not in json.dumps(compute)

    trained = _run(fairway, project, "submit", "jobs/classify/job.yaml", "-t", "local", "--watch")
    assert "done: accuracy=0.97" in trained
    (model,) = project.glob(".fairway/runs/*/tasks/0/outputs/model/model.json")
    assert json.loads(model.read_text())["accuracy"] > 0.96
    assert "accuracy 0.97" in _run(
        fairway, project, "best", "classify", "--metric", "accuracy", "--max"
    )
    assert "lab-vm-gpu" in _run(fairway, project, "diagram", "lab")


def test_init_requirements_install_only_the_wheel_of_the_project(
    fairway: Path, tmp_path: Path
) -> None:
    """pip itself reads them, in a folder of any name."""
    _run(fairway, tmp_path, "init", "our lab", "--name", "lab")
    project = tmp_path / "our lab"
    pip = [sys.executable, "-m", "pip", "install", "--dry-run", "--no-deps", "--no-index"]
    command = [*pip, "--ignore-installed", "-r", "requirements.txt"]
    done = finished(command, cwd=project)
    assert done.returncode == 0, done.stderr
    assert "Would install fairway-hpc-" in done.stdout
    (wheel,) = project.glob("wheels/fairway_hpc-*.whl")
    wheel.unlink()
    assert finished(command, cwd=project).returncode != 0


def test_init_pull_request_workflow_plans_with_the_wheel(
    fairway: Path, tmp_path: Path, repository: Path
) -> None:
    """Runs the commands of a fork's workflow, with a stand-in for Terraform."""
    _run(fairway, tmp_path, "init", "lab")
    programs, calls = tmp_path / "programs", tmp_path / "calls"
    programs.mkdir()
    calls.mkdir()
    source = (repository / "tests/stacks/terraform_stand_in.py").read_text()
    executable(programs / "terraform", f"#!{sys.executable} -IS\n{source}")
    done = finished(
        [fairway, "plan", "--offline", "--report", "review"],
        cwd=tmp_path / "lab",
        env={
            "PATH": f"{programs}:{os.environ['PATH']}",
            "HOME": str(tmp_path),
            "TERRAFORM_STAND_IN": str(calls),
        },
    )
    assert done.returncode == 0, done.stdout + done.stderr
    stacks = ["lab-network", "lab-data", "lab-compute"]
    review = json.loads((tmp_path / "lab/review/review.json").read_text())
    assert [each["stack"] for each in review["stacks"]] == stacks
    assert all(f"azurerm_managed_disk.{stack}" in done.stdout for stack in stacks)


_PROGRAM = """\
import fairway_constructs as az
from lab.container_app_environment import ContainerAppEnvironment
app = az.App(outdir="out")
stack = az.EnvironmentStack(app, "x", location="westeurope")
ContainerAppEnvironment(stack, "apps", name="x-cae", **stack.azure.common)
app.synth()
"""


def test_wheel_imports_nothing_from_the_repository(
    fairway: Path, tmp_path: Path, repository: Path
) -> None:
    code = (
        "import fairway_runner, fairway_core; print(fairway_runner.__file__, fairway_core.__file__)"
    )
    done = finished([fairway.with_name("python"), "-c", code], cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert str(repository) not in done.stdout


def test_wheel_writes_bindings_that_the_stack_of_a_user_uses(
    fairway: Path, tmp_path: Path, repository: Path
) -> None:
    schema = repository / "tests/stacks/container_apps.schema.json"
    words = ["bindings", "azurerm_container_app_environment", "--into", "lab", "--schema", schema]
    for command in ([fairway, *words], [fairway.with_name("python"), "-c", _PROGRAM]):
        done = finished(command, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    assert '"name": "x-cae"' in (tmp_path / "out/stacks/x/cdk.tf.json").read_text()
