"""The built wheel, in an environment that holds nothing of this repository."""

import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def fairway(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `fairway` program of an environment into which only the wheel was installed."""
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
        cwd=repository,
        check=True,
        capture_output=True,
        timeout=120,
    )
    (wheel,) = folder.glob("*.whl")
    environment = folder / "environment"
    venv.create(environment, with_pip=False)
    python = environment / "bin/python"
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet"]
    subprocess.run([*pip, "--no-deps", "--no-index", str(wheel)], check=True, timeout=120)
    # Its dependencies are borrowed. A .pth line adds a folder without that folder's own .pth
    # files, so the editable install of this repository does not come along.
    (site,) = environment.glob("lib/python*/site-packages")
    (site / "borrowed.pth").write_text(sysconfig.get_path("purelib"))
    return environment / "bin/fairway"


def test_a_job_is_rendered_by_the_wheel_alone(fairway: Path, tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(
        "name: hello\ncommand: echo {{ params.x }}\nparams: {x: 1}\n"
    )
    done = subprocess.run(
        [fairway, "render", "job.yaml"], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert "mpirun" in done.stdout
    assert "echo 1" in done.stdout


def test_nothing_comes_from_the_repository(fairway: Path, tmp_path: Path, repository: Path) -> None:
    code = (
        "import fairway_runner, fairway_core; print(fairway_runner.__file__, fairway_core.__file__)"
    )
    done = subprocess.run(
        [fairway.with_name("python"), "-c", code],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert str(repository) not in done.stdout
