"""The cdktf command line works from the repository's root, as it does for any CDKTF project."""

import json
import os
import subprocess
from pathlib import Path

import pytest
from programs import finished

pytestmark = pytest.mark.nightly


@pytest.fixture
def cdktf(repository: Path) -> Path:
    """The program. If it is missing, the test is skipped with the command that installs it."""
    program = repository / ".venv/cdktf-cli/node_modules/.bin/cdktf"
    if not program.exists():
        install = "npm install --prefix .venv/cdktf-cli --no-save cdktf-cli@0.21"
        pytest.skip(f"the cdktf command line is not installed; bin/test does it, or: {install}")
    return program


def test_cdktf_synth_writes_three_stacks(cdktf: Path, repository: Path, tmp_path: Path) -> None:
    done = finished(
        [cdktf, "synth", "--output", str(tmp_path / "out")],
        cwd=repository,
        env={**os.environ, "CI": "1", "CHECKPOINT_DISABLE": "1", "FAIRWAY_ENVIRONMENT": "demo"},
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Generated Terraform code for the stacks" in done.stdout
    written = sorted(path.name for path in (tmp_path / "out/stacks").iterdir())
    assert written == ["demo-compute", "demo-data", "demo-network"]
    compute = json.loads((tmp_path / "out/stacks/demo-compute/cdk.tf.json").read_text())
    assert "targets" in compute["output"]
