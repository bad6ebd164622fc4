"""Scripts of the workflows that `fairway init` writes, run against an in-memory GitHub."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from programs import finished
from ruamel.yaml import YAML

from fairway_core.checks.live import ENDINGS
from fairway_runner import starter

pytestmark = pytest.mark.integration

TEMPLATES = Path(starter.__file__).with_name("files") / "github/workflows"


def _script(name: str) -> str:
    """Returns the one script of a workflow, or of one of its jobs: `deploy/waiting`."""
    workflow, _, job = name.partition("/")
    jobs = YAML(typ="safe", pure=True).load(TEMPLATES / f"{workflow}.yml.in")["jobs"]
    steps = [step for each in ([job] if job else jobs) for step in jobs[each]["steps"]]
    (script,) = [s["with"]["script"] for s in steps if "script" in s.get("with", {})]
    assert isinstance(script, str)
    return script


def _run(name: str, folder: Path, state: dict[str, Any], **environment: str) -> dict[str, Any]:
    """Runs the workflow's script in `folder` on an in-memory GitHub, and returns the result."""
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
    done = finished(
        [node, str(Path(__file__).with_name("run_script.js"))],
        input=json.dumps({"script": _script(name), "context": context, "state": state}),
        cwd=folder,
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def _state(**more: Any) -> dict[str, Any]:
    head = {"sha": "a" * 40}
    pull = {"number": 3, "owner": "someone", "ref": "change", "head": head}
    return {"pulls": [pull], "comments": [], "issues": []} | more


def _comment(folder: Path, text: str = "text") -> None:
    (folder / "comment.md").write_text(f"<!-- fairway review -->\n{text}")


def test_comment_workflow_updates_one_comment(tmp_path: Path) -> None:
    _comment(tmp_path, "## lab\n")
    others = [
        {"id": number, "issue": 3, "body": "<!-- fairway review --> me", "user": {"login": login}}
        for number, login in enumerate(("somebody", "another[bot]"), 1)
    ]
    first = _run("comment", tmp_path, _state(comments=others))["state"]
    assert len(first["comments"]) == 3
    made = first["comments"][2]
    assert made["issue"] == 3
    assert "## lab" in made["body"]
    again = _run("comment", tmp_path, first)["state"]
    assert again["comments"] == first["comments"]


@pytest.mark.parametrize("sha", ["b" * 40, ""])
def test_comment_workflow_skips_commits_that_are_not_the_head(tmp_path: Path, sha: str) -> None:
    _comment(tmp_path)
    state = _state()
    state["pulls"][0]["head"]["sha"] = sha
    found = _run("comment", tmp_path, state)
    assert found["state"]["comments"] == []
    assert not found["failed"]


def test_comment_workflow_skips_a_run_without_a_review(tmp_path: Path) -> None:
    found = _run("comment", tmp_path, _state())
    assert found["state"]["comments"] == []
    assert found["said"] == ["the run has no review"]


def _drifted(folder: Path, **stack: Any) -> None:
    (folder / "review").mkdir(exist_ok=True)
    facts = {"state": "planned", "changes": [], "drift": []} | stack
    (folder / "review/review.json").write_text(json.dumps({"stacks": [facts]}))
    (folder / "review/review.md").write_text(f"the review\n{'x' * 70_000}")


def test_drift_workflow_keeps_one_issue_open_until_the_drift_is_gone(tmp_path: Path) -> None:
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


def test_drift_workflow_reports_announced_retirements_of_azure(tmp_path: Path) -> None:
    _drifted(tmp_path)
    found = [{"id": id_, "path": id_, "message": "ends soon"} for id_ in (*ENDINGS, "no-budget")]
    (tmp_path / "check.json").write_text(json.dumps({"findings": found}))
    (issue,) = _run("drift", tmp_path, _state(), ENVIRONMENT="lab")["state"]["issues"]
    told = [line for line in issue["body"].splitlines() if "ends soon" in line]
    assert sorted(told) == sorted(f"- {id_}: ends soon" for id_ in ENDINGS)
    (tmp_path / "check.json").write_text(json.dumps({"findings": found[-1:]}))
    assert _run("drift", tmp_path, _state(), ENVIRONMENT="lab")["state"]["issues"] == []


def test_drift_workflow_without_a_plan_fails(tmp_path: Path) -> None:
    found = _run("drift", tmp_path, _state(), ENVIRONMENT="lab")
    assert found["failed"]
    assert found["state"]["issues"] == []
    # What Azure has ended may be why there is none.
    ended = {"id": "ended-kubernetes", "path": "clusters[0]", "message": "ended"}
    (tmp_path / "check.json").write_text(json.dumps({"findings": [ended]}))
    found = _run("drift", tmp_path, _state(), ENVIRONMENT="lab")
    assert found["failed"]
    (issue,) = found["state"]["issues"]
    assert "- clusters[0]: ended\n\nThere is no plan" in issue["body"]
    # Nobody knows whether it is over.
    (tmp_path / "check.json").write_text("{}")
    again = _run("drift", tmp_path, found["state"], ENVIRONMENT="lab")
    assert (again["state"]["issues"], again["said"]) == ([issue], [])


def test_deploy_workflow_lists_environments_with_waiting_stacks(tmp_path: Path) -> None:
    """Artifacts of all attempts of a run are listed, and the last job of each name."""
    names = ["approved-lab", "next-big", "next-lab", "outputs-big", "next-big-one", "next-lab"]
    artifacts = [{"name": name, "id": number} for number, name in enumerate([*names, "next-old"])]
    # GitHub may say later how the last one ended.
    ended = {"lab": "success", "big": "success", "old": "failure", "big-one": None}
    jobs = [{"name": f"deploy {name}", "conclusion": ended[name]} for name in ended]
    state = _state(artifacts=artifacts[::-1], jobs=jobs)
    assert _run("deploy/waiting", tmp_path, state)["result"] == ["lab", "big-one"]


def test_deploy_workflow_fails_unless_stacks_are_waiting(tmp_path: Path) -> None:
    assert _run("deploy/deploy", tmp_path, _state())["failed"]
    (tmp_path / "next").mkdir()
    (tmp_path / "next/review.md").write_text("the review")
    found = _run("deploy/deploy", tmp_path, _state())
    assert (found["failed"], found["said"]) == ("", ["the review"])
