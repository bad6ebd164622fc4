"""The workflows and scripts that `fairway init` writes, held against their linters."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from fairway_runner.starter import Settings, write_project


def _tool(name: str) -> str:
    """The path of a linter; without it the test fails in CI and is skipped elsewhere."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    found = shutil.which(name, path=path)
    if found is None:
        message = f"{name} is missing: bin/setup dev"
        if os.environ.get("CI"):
            pytest.fail(message)
        pytest.skip(message)
    return found


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A fresh project."""
    write_project(tmp_path, Settings("lab", "westeurope"))
    return tmp_path


def _holds(*command: str, folder: Path) -> None:
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_zizmor_finds_nothing(project: Path) -> None:
    _holds(_tool("zizmor"), "--offline", "--no-progress", ".", folder=project)


def test_workflows_are_as_github_takes_them(project: Path) -> None:
    files = sorted(str(file) for file in project.glob(".github/workflows/*.yml"))
    assert [Path(file).stem for file in files] == ["deploy", "drift", "plan"]
    schema = ["--builtin-schema", "vendor.github-workflows"]
    _holds(_tool("check-jsonschema"), *schema, *files, folder=project)


def test_shellcheck_finds_nothing(project: Path) -> None:
    scripts = sorted(str(file) for file in project.glob("ci/*"))
    assert all(os.access(script, os.X_OK) for script in scripts)
    _holds(_tool("shellcheck"), *scripts, folder=project)


def test_no_expression_reaches_a_shell(project: Path) -> None:
    from ruamel.yaml import YAML

    for file in project.glob(".github/workflows/*.yml"):
        for job in YAML(typ="safe", pure=True).load(file)["jobs"].values():
            for step in job["steps"]:
                assert "${{" not in step.get("run", ""), file.name
