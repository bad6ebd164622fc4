"""The real provider accepts every stack of every environment: `terraform validate`.

Needs the azurerm provider, from its registry or from a mirror that Terraform's own settings
name; so these tests run only when asked for: `bin/test --provider`.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.provider
ENVIRONMENTS = sorted((Path(__file__).parents[2] / "stacks/environments").glob("*.yaml"))


@pytest.fixture(scope="module")
def plugins(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the provider is kept once it was fetched, for all the stacks."""
    assert shutil.which("terraform"), "terraform is not on PATH: install it, 1.9 or newer"
    return tmp_path_factory.mktemp("plugins")


def _terraform(folder: Path, plugins: Path, *arguments: str) -> None:
    done = subprocess.run(
        ["terraform", f"-chdir={folder}", *arguments],
        env={**os.environ, "TF_PLUGIN_CACHE_DIR": str(plugins), "CHECKPOINT_DISABLE": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, f"terraform {arguments[0]}:\n{done.stdout}{done.stderr}"


@pytest.mark.parametrize("environment", ENVIRONMENTS, ids=lambda file: file.stem)
def test_terraform_validates_every_stack(environment: Path, plugins: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "fairway_cli.main", "synth"],
        env={**os.environ, "FAIRWAY_ENVIRONMENT": str(environment), "CDKTF_OUTDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    for stack in sorted((tmp_path / "stacks").iterdir()):
        _terraform(stack, plugins, "init", "-backend=false", "-input=false", "-no-color")
        _terraform(stack, plugins, "validate", "-no-color")
