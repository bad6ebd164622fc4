"""checkov, the linter of Terraform's security, finds nothing in any environment.

Skipped checks are listed in `.checkov.yaml`, each with a reason.
"""

import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from fairway_core.environment import load_environment
from fairway_stacks.app import synthesize

pytestmark = pytest.mark.nightly

_INSTALL = "python3 -m venv .venv/checkov && .venv/checkov/bin/pip install checkov==3.3.30"


@pytest.fixture
def checkov(repository: Path) -> Path:
    """Returns the program, or skips the test with the command that installs it."""
    program = repository / ".venv/checkov/bin/checkov"
    if not program.exists():
        pytest.skip(f"checkov is not installed; bin/test does it, or: {_INSTALL}")
    return program


def _run(*arguments: object, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(argument) for argument in arguments],
        cwd=folder,
        # Its children, forked beside threads, may hang on a busy machine.
        env={**os.environ, "CHECKOV_PARALLELIZATION_TYPE": "none"},
        capture_output=True,
        text=True,
    )


def test_checkov_reports_nothing_for_all_environments(
    checkov: Path, repository: Path, tmp_path: Path
) -> None:
    for file in sorted((repository / "stacks/environments").glob("*.yaml")):
        synthesize(load_environment(file), project=repository, outdir=tmp_path / file.stem)
    assert len(list(tmp_path.rglob("cdk.tf.json"))) > 20
    settings = repository / ".checkov.yaml"
    done = _run(checkov, "--config-file", settings, "-d", tmp_path, "--compact", "--quiet")
    assert done.returncode == 0, done.stdout + done.stderr


def test_checkov_reports_an_open_port(checkov: Path, repository: Path, tmp_path: Path) -> None:
    """The settings do not hide such findings."""
    (tmp_path / "open.tf.json").write_text(
        '{"resource": {"azurerm_network_security_rule": {"ssh": {"name": "ssh", "priority": 100,'
        ' "direction": "Inbound", "access": "Allow", "protocol": "Tcp", "source_port_range": "*",'
        ' "destination_port_range": "22", "source_address_prefix": "*",'
        ' "destination_address_prefix": "*"}}}}'
    )
    done = _run(checkov, "--config-file", repository / ".checkov.yaml", "-d", tmp_path)
    assert done.returncode == 1, done.stdout
    assert "CKV_AZURE_10" in done.stdout


def test_checkov_reads_a_plan_with_the_documented_command(
    checkov: Path, repository: Path, tmp_path: Path
) -> None:
    page = (repository / "docs/howto/check-plans-with-other-tools.md").read_text("utf-8")
    (line,) = re.findall(r"^checkov (.+)$", page, re.MULTILINE)
    (tmp_path / "plans").mkdir()
    recorded = repository / "tests/core/review/plans/create.json"
    shutil.copy(recorded, tmp_path / "plans/demo-data.json")
    every = _run(checkov, *shlex.split(line), folder=tmp_path)
    shutil.copy(repository / ".checkov.yaml", tmp_path)
    fewer = _run(checkov, *shlex.split(line), folder=tmp_path)
    for done, left_out in ((every, False), (fewer, True)):
        assert done.returncode == 1, done.stdout + done.stderr
        assert "CKV_AZURE_251" in done.stdout
        assert ("CKV_AZURE_97" not in done.stdout) == left_out
