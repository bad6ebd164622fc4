"""The workflows that `fairway init` writes: those of this repository, as a project needs them."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from fairway_runner.starter import Settings, write_project

pytestmark = pytest.mark.integration

OWN = Path(__file__).resolve().parents[3] / ".github/workflows"
NAMES = ["comment", "deploy", "drift", "plan"]


def _tool(name: str) -> str:
    """The path of a linter; without it the test is skipped."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    found = shutil.which(name, path=path)
    if found is None:
        pytest.skip(f"{name} is missing: bin/setup dev")
    return found


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh project."""
    folder = tmp_path_factory.mktemp("project")
    write_project(folder, Settings("lab"))
    return folder


def _holds(*command: str, folder: Path) -> None:
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def _load(file: Path) -> dict[str, Any]:
    document: dict[str, Any] = YAML(typ="safe", pure=True).load(file)
    return document


def _steps(file: Path) -> list[dict[str, Any]]:
    return [step for job in _load(file)["jobs"].values() for step in job["steps"]]


def _actions(file: Path) -> set[str]:
    return {step["uses"] for step in _steps(file) if "uses" in step}


def test_zizmor_finds_nothing(project: Path) -> None:
    _holds(_tool("zizmor"), "--offline", "--no-progress", ".", folder=project)


def test_workflows_are_as_github_takes_them(project: Path) -> None:
    files = sorted(str(file) for file in project.glob(".github/workflows/*.yml"))
    assert [Path(file).stem for file in files] == NAMES
    schema = ["--builtin-schema", "vendor.github-workflows"]
    _holds(_tool("check-jsonschema"), *schema, *files, folder=project)


@pytest.mark.parametrize("name", NAMES)
def test_they_are_as_safe_as_our_own(project: Path, name: str) -> None:
    own, written = OWN / f"{name}.yml", project / f".github/workflows/{name}.yml"
    assert _actions(written) == _actions(own)
    assert _load(written)["jobs"].keys() == _load(own)["jobs"].keys()
    for job, ours in zip(_load(written)["jobs"].values(), _load(own)["jobs"].values(), strict=True):
        assert job["permissions"] == ours["permissions"]
    # The scripts that speak with GitHub are tested where they are from.
    scripts = [
        [s["with"]["script"] for s in _steps(f) if "script" in s.get("with", {})]
        for f in (written, own)
    ]
    assert scripts[0] == scripts[1]


@pytest.mark.parametrize("name", NAMES)
def test_starter_workflows_hold_nothing_of_this_repository(project: Path, name: str) -> None:
    text = (project / f".github/workflows/{name}.yml").read_text()
    assert not re.search(r"\bbin/|stacks/\*\*|constructs|docs/|demo", text)


@pytest.mark.parametrize("name", NAMES)
def test_starter_workflow_steps_are_commands_of_the_wheel(project: Path, name: str) -> None:
    """What follows setup-python installs; what comes then is there, with such options."""
    installed = False
    for step in _steps(project / f".github/workflows/{name}.yml"):
        installed = installed and "checkout" not in step.get("uses", "")
        if "run" not in step:
            continue
        words = shlex.split(step["run"])
        if words == ["pip", "install", "-r", "requirements.txt"]:
            installed = True
            continue
        assert installed
        assert "${{" not in step["run"]
        assert words[0] == "fairway"
        expected = {"comment": "reviews", "lock": "--check"}.get(words[1], "$ENVIRONMENT")
        assert words[2] == expected
        usage = _usage(words[1])
        assert all(word in usage for word in words if word.startswith("--"))


def _usage(name: str) -> str:
    command = [sys.executable, "-P", "-m", "fairway_cli.main", name, "--help"]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=300).stdout


def test_a_pull_request_is_planned_where_it_touches_the_project(project: Path) -> None:
    written = project / ".github/workflows"
    for name, event in (("plan", "pull_request"), ("deploy", "push")):
        paths = _load(written / f"{name}.yml")["on"][event]["paths"]
        assert {"environments/**", "requirements.txt"} <= set(paths)
    for file in ("plan", "deploy", "drift"):
        for job in _load(written / f"{file}.yml")["jobs"].values():
            environments = job.get("strategy", {}).get("matrix", {}).get("environment", "")
            if "needs." not in environments and environments:
                assert """'["lab"]'""" in environments


def test_a_fork_is_planned_without_credentials(project: Path) -> None:
    job = _load(project / ".github/workflows/plan.yml")["jobs"]["offline"]
    assert job["permissions"] == {"contents": "read"}
    runs = [step["run"] for step in job["steps"] if "fairway plan" in step.get("run", "")]
    assert len(runs) == 2
    assert all("--offline" in run for run in runs)
