"""Workflows of `.github`: safe, valid for GitHub, and made of the project's commands."""

import os
import shlex
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from programs import finished, tool
from ruamel.yaml import YAML

from fairway_runner.engines.capabilities import ENGINES

pytestmark = pytest.mark.integration

FOLDER = Path(__file__).parents[2] / ".github" / "workflows"
WORKFLOWS = sorted(FOLDER.glob("*.yml"))
# The only step that is not a command of the project.
_USER_NAMESPACES = "sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"


def _load(file: Path) -> dict[str, Any]:
    document: dict[str, Any] = YAML(typ="safe", pure=True).load(file)
    return document


def _steps(file: Path) -> list[dict[str, Any]]:
    return [step for job in _load(file)["jobs"].values() for step in job["steps"]]


def test_workflows_pass_zizmor() -> None:
    """Actions are pinned, scripts contain no expressions, and no credentials are left behind."""
    # Includes dependabot.yml beside the workflows.
    command = [tool("zizmor"), "--offline", "--no-progress", "--format=plain", str(FOLDER.parent)]
    done = finished(command)
    assert done.returncode == 0, done.stdout + done.stderr


def test_workflows_and_issue_forms_match_the_schemas_of_github() -> None:
    templates = sorted((FOLDER.parent / "ISSUE_TEMPLATE").glob("[!c]*.yml"))
    assert len(templates) == 2
    for schema, files in (
        ("github-workflows", WORKFLOWS),
        ("dependabot", [FOLDER.parent / "dependabot.yml"]),
        ("github-issue-forms", templates),
    ):
        command = [tool("check-jsonschema"), "--builtin-schema", f"vendor.{schema}"]
        done = finished([*command, *map(str, files)])
        assert done.returncode == 0, done.stdout + done.stderr


def test_bug_report_form_offers_every_engine() -> None:
    form = _load(FOLDER.parent / "ISSUE_TEMPLATE" / "bug.yml")
    (engine,) = (field for field in form["body"] if field.get("id") == "engine")
    assert engine["attributes"]["options"] == ["none (infrastructure)", *ENGINES]


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.stem)
def test_workflow_steps_are_commands_of_the_project(file: Path, repository: Path) -> None:
    for step in _steps(file):
        if "run" not in step or step["run"] == _USER_NAMESPACES:
            continue
        assert len(step["run"].strip().splitlines()) == 1, step["run"]
        words = shlex.split(step["run"])
        if words[0] == "sudo":
            words = words[4:] if words[2] == "env" else words[1:]
        program = repository / words[0]
        assert os.access(program, os.X_OK), words[0]
        options = [word for word in words if word.startswith("--")]
        if program.name == "fairway" and words[1] != "check":
            usage = _usage(words[1])
            assert all(option in usage for option in options), step["run"]


def test_workflow_jobs_that_test_as_root_allow_user_namespaces() -> None:
    """Otherwise rootless containers are not tested: AppArmor forbids them on these machines."""
    found = []
    for file in WORKFLOWS:
        for name, job in _load(file)["jobs"].items():
            runs = [step["run"] for step in job["steps"] if "run" in step]
            if any(run.endswith((" .ci/run", " bin/test --all")) for run in runs):
                assert runs[0] == _USER_NAMESPACES
                found.append(name)
    assert found == ["all", "test"]


def _usage(name: str) -> str:
    command = [sys.executable, "-m", "fairway_cli.main", name, "--help"]
    return finished(command, check=True).stdout


def test_workflow_tests_every_supported_python_and_macos(repository: Path) -> None:
    jobs = _load(FOLDER / "test.yml")["jobs"]
    pythons = jobs["fast"]["strategy"]["matrix"]["python"]
    assert pythons == ["3.11", "3.12", "3.13", "3.14"]
    project = tomllib.loads((repository / "pyproject.toml").read_text())["project"]
    assert project["requires-python"] == f">={pythons[0]}"
    assert jobs["client"]["runs-on"].startswith("macos-")


@pytest.mark.nightly
def test_client_commands_of_the_macos_job_work_on_this_machine(repository: Path) -> None:
    environment = {name: text for name, text in os.environ.items() if "FAIRWAY_" not in name}
    environment["FAIRWAY_PROGRAM"] = tool("fairway")
    done = finished([repository / ".ci/client"], env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "$ fairway synth demo"


def test_workflows_have_write_permissions_only_to_publish() -> None:
    """Each job must name its permissions: the workflow has none by default."""
    for file in WORKFLOWS:
        assert _load(file)["permissions"] == {}
        for job in _load(file)["jobs"].values():
            writes = {key for key, value in job["permissions"].items() if value == "write"}
            assert writes <= {
                "prices": {"contents", "pull-requests"},
                "release": {"contents"},
            }.get(file.stem, set())
