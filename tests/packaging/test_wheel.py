"""The built wheel without the repository: a rendered job, its imports, and a user's bindings."""

from pathlib import Path

import pytest
from programs import finished

pytestmark = pytest.mark.integration

_PROGRAM = """\
import fairway_constructs as az
from lab.container_app_environment import ContainerAppEnvironment
app = az.App(outdir="out")
stack = az.EnvironmentStack(app, "x", location="westeurope")
ContainerAppEnvironment(stack, "apps", name="x-cae", **stack.place.common)
app.synth()
"""


def test_wheel_alone_renders_a_job(fairway: Path, tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(
        "name: hello\ncommand: echo {{ params.x }}\nparams: {x: 1}\n"
    )
    done = finished([fairway, "render", "job.yaml"], cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "mpirun" in done.stdout
    assert "echo 1" in done.stdout


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
