"""The workflows of `.github`: safe, in the form that GitHub reads, and made of our commands."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from ruamel.yaml import YAML

from fairway_core.checks.live import ENDINGS
from fairway_runner.engines.capabilities import ENGINES

pytestmark = pytest.mark.integration

FOLDER = Path(__file__).parents[2] / ".github" / "workflows"
WORKFLOWS = sorted(FOLDER.glob("*.yml"))
_PINNED = re.compile(r"[\w.-]+/[\w.-]+@[0-9a-f]{40}")


def _load(file: Path) -> dict[str, Any]:
    document: dict[str, Any] = YAML(typ="safe", pure=True).load(file)
    return document


def _steps(file: Path) -> list[dict[str, Any]]:
    return [step for job in _load(file)["jobs"].values() for step in job["steps"]]


def _tool(name: str) -> str:
    program = Path(sys.executable).with_name(name)
    if not program.exists():
        pytest.skip(f"{name} is not installed: bin/setup dev")
    return str(program)


def test_workflows_are_all_known() -> None:
    names = [file.stem for file in WORKFLOWS]
    assert names == ["comment", "deploy", "drift", "nightly", "plan", "prices", "release", "test"]


def test_zizmor_finds_nothing() -> None:
    # With dependabot.yml, which lies beside the workflows.
    command = [_tool("zizmor"), "--offline", "--no-progress", "--format=plain", str(FOLDER.parent)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr


def test_they_have_the_form_that_github_reads() -> None:
    command = [_tool("check-jsonschema"), "--builtin-schema", "vendor.github-workflows"]
    done = subprocess.run(
        [*command, *map(str, WORKFLOWS)], capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_github_files_match_their_schemas() -> None:
    check = _tool("check-jsonschema")
    templates = sorted((FOLDER.parent / "ISSUE_TEMPLATE").glob("[!c]*.yml"))
    files = {
        "vendor.dependabot": [FOLDER.parent / "dependabot.yml"],
        "vendor.github-issue-forms": templates,
    }
    for schema, paths in files.items():
        command = [check, "--builtin-schema", schema, *map(str, paths)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
        assert done.returncode == 0, done.stdout + done.stderr
    assert len(templates) == 2


def test_a_bug_report_names_every_engine() -> None:
    form = _load(FOLDER.parent / "ISSUE_TEMPLATE" / "bug.yml")
    (engine,) = (field for field in form["body"] if field.get("id") == "engine")
    assert engine["attributes"]["options"] == ["none (infrastructure)", *ENGINES]


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.stem)
def test_actions_are_pinned_and_nothing_is_pasted_into_scripts(file: Path) -> None:
    document = _load(file)
    assert document["permissions"] == {}
    for step in _steps(file):
        if "uses" in step:
            assert _PINNED.fullmatch(step["uses"]), step["uses"]
        for script in (step.get("run", ""), step.get("with", {}).get("script", "")):
            assert "${{" not in script
        if "checkout" in step.get("uses", ""):
            assert step["with"]["persist-credentials"] is False


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.stem)
def test_workflow_steps_are_commands_of_the_project(file: Path, repository: Path) -> None:
    for step in _steps(file):
        if "run" not in step:
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


def _usage(name: str) -> str:
    command = [sys.executable, "-m", "fairway_cli.main", name, "--help"]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=300).stdout


def test_every_python_that_the_project_takes_is_tested_and_macos_is(repository: Path) -> None:
    jobs = _load(FOLDER / "test.yml")["jobs"]
    pythons = jobs["fast"]["strategy"]["matrix"]["python"]
    assert pythons == ["3.11", "3.12", "3.13", "3.14"]
    project = tomllib.loads((repository / "pyproject.toml").read_text())["project"]
    assert project["requires-python"] == f">={pythons[0]}"
    assert jobs["client"]["runs-on"].startswith("macos-")


def test_the_commands_of_a_client_work_here_too(repository: Path) -> None:
    environment = {name: text for name, text in os.environ.items() if "FAIRWAY_" not in name}
    environment["FAIRWAY_PROGRAM"] = _tool("fairway")
    done = subprocess.run(
        [repository / ".ci/client"], env=environment, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "$ fairway synth demo"


def test_workflow_with_write_token_runs_no_code_of_a_pull_request() -> None:
    """The job that comments has a token that writes: it checks out nothing, and runs nothing.

    The job before it renders with the code of the default branch, and may write nothing.
    """
    jobs = _load(FOLDER / "comment.yml")["jobs"]
    assert [step["uses"].split("@")[0] for step in jobs["comment"]["steps"]] == [
        "actions/download-artifact",
        "actions/github-script",
    ]
    assert set(jobs["render"]["permissions"].values()) == {"read"}
    (checkout,) = (s for s in jobs["render"]["steps"] if "checkout" in s.get("uses", ""))
    assert set(checkout["with"]) == {"persist-credentials"}, "the default branch, and no other"
    for file in WORKFLOWS:
        for job in _load(file)["jobs"].values():
            writes = {key for key, value in job["permissions"].items() if value == "write"}
            allowed = {
                "comment": {"pull-requests"},
                "drift": {"id-token", "issues"},
                "plan": {"id-token"},
                "deploy": {"id-token"},
                "prices": {"contents", "pull-requests"},
                "release": {"contents"},
                "nightly": set(),
                "test": set(),
            }[file.stem]
            assert writes <= allowed


def test_a_fork_gets_no_credentials() -> None:
    jobs = _load(FOLDER / "plan.yml")["jobs"]
    assert jobs["offline"]["permissions"] == {"contents": "read"}
    assert not any(key.startswith("ARM_") for key in jobs["offline"]["env"])
    same = "github.event.pull_request.head.repo.full_name == github.repository"
    assert same in jobs["live"]["if"]


def _script(name: str) -> str:
    """The one script of a workflow, or of one of its jobs: `deploy/waiting`."""
    workflow, _, job = name.partition("/")
    jobs = _load(FOLDER / f"{workflow}.yml")["jobs"]
    steps = jobs[job]["steps"] if job else _steps(FOLDER / f"{workflow}.yml")
    (script,) = [s["with"]["script"] for s in steps if "script" in s.get("with", {})]
    assert isinstance(script, str)
    return script


def _run(name: str, folder: Path, state: dict[str, Any], **environment: str) -> dict[str, Any]:
    """Runs the workflow's script in `folder`, on a GitHub in memory; what became of that."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("Node.js is not on PATH")
    run = {
        "head_repository": {"owner": {"login": "someone"}},
        "head_branch": "change",
        "head_sha": "a" * 40,
        "html_url": "https://example.org/run",
    }
    context = {
        "repo": {"owner": "lab", "repo": "fairway"},
        "payload": {"workflow_run": run},
        "serverUrl": "https://example.org",
        "runId": 7,
    }
    done = subprocess.run(
        [node, str(Path(__file__).with_name("run_script.js"))],
        input=json.dumps({"script": _script(name), "context": context, "state": state}),
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _state(**more: Any) -> dict[str, Any]:
    head = {"sha": "a" * 40}
    pull = {"number": 3, "owner": "someone", "ref": "change", "head": head}
    return {"pulls": [pull], "comments": [], "issues": []} | more


def _comment(folder: Path, text: str = "text") -> None:
    (folder / "comment.md").write_text(f"<!-- fairway review -->\n{text}")


def test_comment_workflow_updates_one_comment(tmp_path: Path) -> None:
    _comment(tmp_path, "## lab\n")
    other = {"id": 1, "issue": 3, "body": "<!-- fairway review --> me", "user": {"type": "User"}}
    first = _run("comment", tmp_path, _state(comments=[other]))["state"]
    assert len(first["comments"]) == 2
    made = first["comments"][1]
    assert made["issue"] == 3
    assert "## lab" in made["body"]
    again = _run("comment", tmp_path, first)["state"]
    assert again["comments"] == first["comments"]


@pytest.mark.parametrize("sha", ["b" * 40, ""])
def test_a_commit_that_is_no_longer_the_head_gets_no_comment(tmp_path: Path, sha: str) -> None:
    _comment(tmp_path)
    state = _state()
    state["pulls"][0]["head"]["sha"] = sha
    found = _run("comment", tmp_path, state)
    assert found["state"]["comments"] == []
    assert not found["failed"]


def test_a_run_without_a_review_gets_no_comment(tmp_path: Path) -> None:
    found = _run("comment", tmp_path, _state())
    assert found["state"]["comments"] == []
    assert found["said"] == ["the run has no review"]


def test_everywhere_it_is_one_version_of_terraform() -> None:
    versions = {
        step["with"].get("terraform_version")
        for file in WORKFLOWS
        for step in _steps(file)
        if "setup-terraform" in step.get("uses", "")
    }
    assert versions == {"1.11.4"}


def test_workflows_with_credentials_check_the_lock_file_first() -> None:
    """A job with credentials fails before its first plan where no lock file is committed."""
    for file in (FOLDER / "plan.yml", FOLDER / "deploy.yml", FOLDER / "drift.yml"):
        for name, job in _load(file)["jobs"].items():
            if "id-token" not in job.get("permissions", {}):
                continue
            commands = [step.get("run", "") for step in job["steps"]]
            first = next(line for line in commands if "fairway" in line)
            assert first == "bin/fairway lock --check", f"{file.name}, {name}"
            assert not any(step.get("continue-on-error") for step in job["steps"][:4])


def test_whatever_changes_a_plan_starts_one() -> None:
    """Environments, stacks, constructs, the program that plans, and what it is installed from."""
    on = _load(FOLDER / "plan.yml")
    paths = set(on["on"]["pull_request"]["paths"])
    assert paths >= {
        *("stacks/**", "constructs/**", "runner/**", "simulators/**", "bin/**"),
        *("pyproject.toml", "cdktf.json", ".github/workflows/**"),
    }
    deploys = set(_load(FOLDER / "deploy.yml")["on"]["push"]["paths"])
    assert deploys >= {"stacks/**", "constructs/**", "runner/**", "bin/**", "pyproject.toml"}


def _drifted(folder: Path, **stack: Any) -> None:
    (folder / "review").mkdir(exist_ok=True)
    facts = {"state": "planned", "changes": [], "drift": []} | stack
    (folder / "review/review.json").write_text(json.dumps({"stacks": [facts]}))
    (folder / "review/review.md").write_text(f"the review\n{'x' * 70_000}")


def test_drift_is_told_in_one_issue_until_it_is_gone(tmp_path: Path) -> None:
    _drifted(tmp_path, drift=[{}])
    first = _run("drift", tmp_path, _state(), ENVIRONMENT="lab")["state"]
    (issue,) = first["issues"]
    assert issue["title"] == "Azure is not as lab says"
    assert "the review" in issue["body"]
    assert len(issue["body"]) == 65_000
    again = _run("drift", tmp_path, first, ENVIRONMENT="lab")["state"]
    assert len(again["issues"]) == 1
    _drifted(tmp_path)
    over = _run("drift", tmp_path, again, ENVIRONMENT="lab")["state"]
    assert [each["state"] for each in over["issues"]] == ["closed"]
    assert _run("drift", tmp_path, over, ENVIRONMENT="lab")["state"] == over


@pytest.mark.parametrize("stack", [{"changes": [{}]}, {"state": "failed"}, {"state": "waiting"}])
def test_drift_workflow_opens_an_issue_for_other_deviations(
    tmp_path: Path, stack: dict[str, Any]
) -> None:
    _drifted(tmp_path, **stack)
    assert len(_run("drift", tmp_path, _state(), ENVIRONMENT="lab")["state"]["issues"]) == 1


@pytest.mark.parametrize("id_", [*sorted(ENDINGS), "no-budget"])
def test_a_day_on_which_azure_ends_something_is_told_before(tmp_path: Path, id_: str) -> None:
    _drifted(tmp_path)
    finding = {"id": id_, "path": "clusters.box", "message": "ends soon"}
    (tmp_path / "check.json").write_text(json.dumps({"findings": [finding]}))
    issues = _run("drift", tmp_path, _state(), ENVIRONMENT="lab")["state"]["issues"]
    assert ["- clusters.box: ends soon" in each["body"] for each in issues] == (
        [True] if id_ in ENDINGS else []
    )


def test_without_a_plan_the_watch_fails(tmp_path: Path) -> None:
    found = _run("drift", tmp_path, _state(), ENVIRONMENT="lab")
    assert found["failed"]
    assert found["state"]["issues"] == []


def test_deploy_workflow_asks_a_second_approval_for_waiting_stacks() -> None:
    """Only where there is something left is anybody asked again."""
    jobs = _load(FOLDER / "deploy.yml")["jobs"]
    assert jobs["rest"]["environment"] == jobs["deploy"]["environment"]
    assert jobs["rest"]["env"] == jobs["deploy"]["env"]
    matrix = jobs["rest"]["strategy"]["matrix"]["environment"]
    assert matrix == "${{ fromJSON(needs.waiting.outputs.environments) }}"
    assert "environments != '[]'" in jobs["rest"]["if"]


def test_environments_with_something_left_are_named(tmp_path: Path) -> None:
    names = ["approved-lab", "next-lab", "outputs-big", "next-big-one"]
    state = _state(artifacts=[{"name": name} for name in names])
    assert _run("deploy/waiting", tmp_path, state)["result"] == ["lab", "big-one"]


def test_a_deployment_that_failed_for_another_reason_fails(tmp_path: Path) -> None:
    assert _run("deploy/deploy", tmp_path, _state())["failed"]
    (tmp_path / "next").mkdir()
    (tmp_path / "next/review.md").write_text("the review")
    found = _run("deploy/deploy", tmp_path, _state())
    assert (found["failed"], found["said"]) == ("", ["the review"])


_LOCKED = re.compile(r"([a-z0-9._-]+)==(\S+) --hash=sha256:[0-9a-f]{64}")


def test_workflow_requirements_are_locked_by_hash(repository: Path) -> None:
    """Everything that the project needs, in versions that it allows."""
    lines = (repository / "requirements/workflows.txt").read_text().splitlines()
    found = [_LOCKED.fullmatch(line) for line in lines if not line.startswith("#")]
    assert all(found)
    locked = {canonicalize_name(each[1]): each[2] for each in found if each}
    project = tomllib.loads((repository / "pyproject.toml").read_text())
    for text in [*project["project"]["dependencies"], *project["build-system"]["requires"]]:
        wanted = Requirement(text)
        version = locked.get(canonicalize_name(wanted.name), "0")
        assert wanted.specifier.contains(version), f"{text}: bin/requirements"


@pytest.mark.parametrize("name", ["comment", "deploy", "drift", "plan"])
def test_they_install_nothing_else(name: str) -> None:
    named = _load(FOLDER / f"{name}.yml")["env"]
    assert named == {"FAIRWAY_REQUIREMENTS": "requirements/workflows.txt"}


def test_another_file_than_the_named_one_is_not_installed(repository: Path, tmp_path: Path) -> None:
    """pip refuses what has no hash, or another one: bin/setup asks it to."""
    (tmp_path / "bin").mkdir()
    shutil.copy(repository / "bin/setup", tmp_path / "bin/setup")
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "locked.txt").touch()
    python = tmp_path / ".venv/bin/python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\necho "$@" >>{tmp_path}/calls\n')
    python.chmod(0o755)
    environment = {**os.environ, "FAIRWAY_REQUIREMENTS": "locked.txt"}
    subprocess.run([tmp_path / "bin/setup"], env=environment, check=True, timeout=300)
    calls = (tmp_path / "calls").read_text().splitlines()
    _, requirements, itself = calls
    assert "--require-hashes" in requirements
    assert requirements.endswith(f"--requirement {tmp_path}/locked.txt")
    assert "--no-deps --no-build-isolation" in itself
