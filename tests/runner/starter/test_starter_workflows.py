"""Workflows that `fairway init` writes: safe, valid for GitHub, with existing commands only."""

import re
import shlex
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from programs import finished, tool
from ruamel.yaml import YAML
from running import RunFairway

from fairway_runner.starter.project import Settings, write_project

pytestmark = pytest.mark.integration

OWN = Path(__file__).resolve().parents[3]
WORKFLOWS = ".github/workflows"
NAMES = ["comment", "deploy", "drift", "plan"]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new project with the environment `lab`, as `fairway init` writes it."""
    folder = tmp_path_factory.mktemp("project")
    write_project(folder, Settings("lab"))
    return folder


def _holds(*command: str, folder: Path) -> None:
    done = finished(command, cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr


@cache
def _load(file: Path) -> dict[str, Any]:
    return YAML(typ="safe", pure=True).load(file)


def _steps(file: Path) -> list[dict[str, Any]]:
    return [step for job in _load(file)["jobs"].values() for step in job["steps"]]


def test_starter_workflows_pass_zizmor(project: Path) -> None:
    _holds(tool("zizmor"), "--offline", "--no-progress", ".", folder=project)


def test_starter_workflows_match_the_schema_of_github(project: Path) -> None:
    files = sorted(str(file) for file in project.glob(".github/workflows/*.yml"))
    assert [Path(file).stem for file in files] == NAMES
    schema = ["--builtin-schema", "vendor.github-workflows"]
    _holds(tool("check-jsonschema"), *schema, *files, folder=project)


def test_starter_workflows_pin_the_action_versions_of_our_own_workflows(project: Path) -> None:
    """Dependabot updates only our own."""

    def versions(folder: Path) -> dict[str, str]:
        files = folder.glob(".github/workflows/*.yml")
        steps = (step for file in files for step in _steps(file))
        return dict(sorted(step["uses"].split("@") for step in steps if "uses" in step))

    own, written = versions(OWN), versions(project)
    assert {name: written[name] for name in own.keys() & written} == {
        name: own[name] for name in own.keys() & written
    }


def test_starter_workflows_and_our_own_use_one_terraform_version(project: Path) -> None:
    versions = {
        step["with"].get("terraform_version")
        for folder in (OWN, project)
        for file in (folder / WORKFLOWS).glob("*.yml")
        for step in _steps(file)
        if "setup-terraform" in step.get("uses", "")
    }
    assert versions == {"1.11.4"}


@pytest.mark.parametrize("name", NAMES)
def test_starter_workflow_pins_actions_and_expands_no_expressions(project: Path, name: str) -> None:
    file = project / f".github/workflows/{name}.yml"
    assert _load(file)["permissions"] == {}
    for step in _steps(file):
        assert re.fullmatch(r"[\w.-]+/[\w.-]+@[0-9a-f]{40}|", step.get("uses", ""))
        assert "${{" not in step.get("run", "") + step.get("with", {}).get("script", "")
        if "checkout" in step.get("uses", ""):
            assert step["with"]["persist-credentials"] is False


def test_workflows_that_run_again_replace_their_artifacts(project: Path) -> None:
    """Otherwise an upload fails: artifacts of the attempts before are still there."""
    for folder in (OWN, project):
        for file in (folder / WORKFLOWS).glob("*.yml"):
            for step in _steps(file):
                if "upload-artifact" in step.get("uses", ""):
                    assert step["with"]["overwrite"] is True, file


@pytest.mark.parametrize("name", NAMES)
def test_starter_workflow_mentions_no_path_of_this_repository(project: Path, name: str) -> None:
    text = (project / f".github/workflows/{name}.yml").read_text()
    assert not re.search(r"\bbin/|stacks/\*\*|constructs|docs/|demo", text)


@pytest.mark.parametrize("name", NAMES)
def test_starter_workflow_steps_are_commands_of_the_wheel(
    project: Path, fairway: RunFairway, name: str
) -> None:
    """The first command after setup-python installs; each later one exists, with its options."""
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
        code, usage, _ = fairway(project, words[1], "--help")
        assert code == 0
        assert all(word in usage for word in words if word.startswith("--"))


def test_starter_workflow_plans_pull_requests_and_forks_without_credentials(project: Path) -> None:
    written = project / ".github/workflows"
    for name, event in (("plan", "pull_request"), ("deploy", "push")):
        paths = _load(written / f"{name}.yml")["on"][event]["paths"]
        assert {"environments/**", "requirements.txt"} <= set(paths)
    for file in ("plan", "deploy", "drift"):
        for job in _load(written / f"{file}.yml")["jobs"].values():
            environments = job.get("strategy", {}).get("matrix", {}).get("environment", "")
            if "needs." not in environments and environments:
                assert """'["lab"]'""" in environments
    jobs = _load(project / WORKFLOWS / "plan.yml")["jobs"]
    job = jobs["offline"]
    assert job["permissions"] == {"contents": "read"}
    assert not any(key.startswith("ARM_") for key in job["env"])
    same = "github.event.pull_request.head.repo.full_name == github.repository"
    assert same in jobs["live"]["if"]
    runs = [step["run"] for step in job["steps"] if "fairway plan" in step.get("run", "")]
    assert len(runs) == 2
    assert all("--offline" in run for run in runs)


def test_starter_workflow_with_write_token_runs_no_code_of_a_pull_request(project: Path) -> None:
    """The job that comments has a write token: it checks out nothing, and runs nothing.

    The job before it renders with the code of the default branch, and has no write token.
    """
    jobs = _load(project / WORKFLOWS / "comment.yml")["jobs"]
    assert [step["uses"].split("@")[0] for step in jobs["comment"]["steps"]] == [
        "actions/download-artifact",
        "actions/github-script",
    ]
    assert set(jobs["render"]["permissions"].values()) == {"read"}
    (checkout,) = (s for s in jobs["render"]["steps"] if "checkout" in s.get("uses", ""))
    assert set(checkout["with"]) == {"persist-credentials"}, "the default branch, and no other"
    allowed = {
        "comment": {"pull-requests"},
        "drift": {"id-token", "issues"},
        "plan": {"id-token"},
        "deploy": {"id-token"},
    }
    for name in NAMES:
        for job in _load(project / WORKFLOWS / f"{name}.yml")["jobs"].values():
            writes = {key for key, value in job["permissions"].items() if value == "write"}
            assert writes <= allowed[name]


def test_starter_workflows_with_credentials_check_the_lock_file_first(project: Path) -> None:
    """A job with credentials fails before its first plan if no lock file is committed."""
    for file in ("plan", "deploy", "drift"):
        for name, job in _load(project / WORKFLOWS / f"{file}.yml")["jobs"].items():
            if "id-token" not in job.get("permissions", {}):
                continue
            commands = [step.get("run", "") for step in job["steps"]]
            first = next(line for line in commands if "fairway" in line)
            assert first == "fairway lock --check", f"{file}, {name}"
            assert not any(step.get("continue-on-error") for step in job["steps"][:4])


def test_starter_deploy_workflow_asks_a_second_approval_for_waiting_stacks(project: Path) -> None:
    """The second approval is requested only if stacks are left."""
    jobs = _load(project / WORKFLOWS / "deploy.yml")["jobs"]
    assert jobs["rest"]["environment"] == jobs["deploy"]["environment"]
    assert jobs["rest"]["env"] == jobs["deploy"]["env"]
    matrix = jobs["rest"]["strategy"]["matrix"]["environment"]
    assert matrix == "${{ fromJSON(needs.waiting.outputs.environments) }}"
    assert "environments != '[]'" in jobs["rest"]["if"]
