"""The built wheel alone: what it renders, and that nothing comes from the repository."""

import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.integration


def test_a_job_is_rendered_by_the_wheel_alone(fairway: Path, tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(
        "name: hello\ncommand: echo {{ params.x }}\nparams: {x: 1}\n"
    )
    done = subprocess.run(
        [fairway, "render", "job.yaml"], cwd=tmp_path, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert "mpirun" in done.stdout
    assert "echo 1" in done.stdout


def test_wheel_imports_nothing_from_the_repository(
    fairway: Path, tmp_path: Path, repository: Path
) -> None:
    code = (
        "import fairway_runner, fairway_core; print(fairway_runner.__file__, fairway_core.__file__)"
    )
    done = subprocess.run(
        [fairway.with_name("python"), "-c", code],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert str(repository) not in done.stdout
