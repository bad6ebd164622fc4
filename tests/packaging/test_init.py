"""A project of one's own from nothing but the wheel: made, checked, synthesized, and trained."""

import json
import os
import subprocess
from pathlib import Path


def _run(fairway: Path, folder: Path, *arguments: str) -> str:
    """What the program prints, in an environment like that of a person who has activated it."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("FAIRWAY", "CDKTF", "PYTHON", "VIRTUAL_ENV"))
    }
    path = f"{fairway.parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["fairway", *arguments],
        cwd=folder,
        env={**kept, "PATH": path, "HOME": str(folder)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    return done.stdout


def test_from_nothing_to_a_trained_model(fairway: Path, tmp_path: Path, repository: Path) -> None:
    said = _run(fairway, tmp_path, "init", "lab", "--location", "westeurope")
    assert "fairway submit jobs/classify/job.yaml --watch" in said
    project = tmp_path / "lab"
    assert (project / ".github/workflows/plan.yml").is_file()
    assert os.access(project / "ci/plan", os.X_OK)
    assert "nothing found" in _run(fairway, project, "check", "lab", "--strict")

    # What cdktf.json tells cdktf to run, with the environment found by itself.
    app = json.loads((project / "cdktf.json").read_text())["app"]
    assert app == "fairway synth"
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
