"""The project folder, found by the same rule for targets and runs."""

import json
import os
from pathlib import Path

import pytest
from endings import ends, refused
from running import MakeRun, RunFairway

from fairway_cli.commands.arguments import complete_runs
from fairway_core.environment.selection import project_folder
from fairway_core.project_folder import find_project
from fairway_hpc import runs


@pytest.fixture
def below(tmp_path: Path, make_run: MakeRun) -> Path:
    """A folder below the folder of a project that has a run."""
    make_run("job-aaaaaa")
    (tmp_path / "fairway.yaml").write_text("targets: []\n")
    folder = tmp_path / "jobs" / "classify"
    folder.mkdir(parents=True)
    return folder


def test_project_folder_is_found_from_below_or_suggested(
    below: Path, tmp_path: Path, fairway: RunFairway, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, out, _ = fairway(below, "list", "--json")
    assert (code, [each["run_id"] for each in json.loads(out)]) == (0, ["job-aaaaaa"])
    code, out, _ = fairway(below, "show", "job", "--json")
    assert (code, json.loads(out)["folder"]) == (0, str(tmp_path / ".fairway/runs/job-aaaaaa"))
    monkeypatch.chdir(below)
    assert [run.id for run in runs()] == ["job-aaaaaa"]
    assert complete_runs("job") == ["job-aaaaaa"]
    assert not (below / ".fairway").exists()
    (tmp_path / "fairway.yaml").unlink()
    done = fairway(below, "list")
    ends(done, 0, printed=f"no runs yet in {below}; there are runs in {tmp_path}: cd {tmp_path}\n")
    ends(fairway(below, "show", "job"), 2, f"there are runs in {tmp_path}")


def test_project_folder_is_set_by_the_environment_variable(
    below: Path, tmp_path: Path, fairway: RunFairway, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "fairway.yaml").write_text("targets: []\n")
    assert fairway(elsewhere, "list", "--json")[1] == "[]\n"
    monkeypatch.setenv("FAIRWAY_FOLDER", str(tmp_path))
    code, out, _ = fairway(elsewhere, "list", "--json")
    assert (code, [each["run_id"] for each in json.loads(out)]) == (0, ["job-aaaaaa"])
    assert [run.id for run in runs(elsewhere)] == [], "a folder that is given is meant"
    assert [run.id for run in runs(below)] == ["job-aaaaaa"]
    monkeypatch.setenv("FAIRWAY_FOLDER", str(tmp_path / "none"))
    ends(fairway(elsewhere, "list"), 2, "FAIRWAY_FOLDER")
    monkeypatch.chdir(elsewhere)
    assert complete_runs("job") == []


def test_project_folder_is_the_current_folder_without_a_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("FAIRWAY_FOLDER", raising=False)
    monkeypatch.chdir(tmp_path)
    assert find_project() == (tmp_path, None)
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    refused(lambda: find_project(), "the current folder was removed")


@pytest.mark.skipif(os.getuid() != 0, reason="only root could give files to another")
@pytest.mark.parametrize(
    ("owner", "holder", "mode", "own", "found"),
    [
        (1000, 0, 0o1777, 0, False),  # /tmp
        (1000, 0, 0o1775, 0, False),
        (1000, 0, 0o755, 0, False),
        (1000, 1000, 0o755, 1000, True),  # a checkout that is mounted into a container
        (1000, 1000, 0o755, 0, True),
        (1000, 1000, 0o775, 0, False),
        (1001, 1000, 0o755, 0, False),
        (1000, 0, 0o2775, 0, True),  # of a group of ours
        (0, 0, 0o1777, 0, True),
    ],
)
@pytest.mark.parametrize("name", ["fairway.yaml", ".fairway", "cdktf.json"])
def test_project_of_another_user_is_taken_only_where_others_could_not_put_it(
    below: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    owner: int,
    holder: int,
    mode: int,
    own: int,
    found: bool,
) -> None:
    os.chown(tmp_path, holder, holder)
    (tmp_path / name).touch()
    os.chown(tmp_path / name, owner, owner)
    tmp_path.chmod(mode)
    os.chown(below, own, own)
    monkeypatch.chdir(below)

    def find() -> Path | None:
        return project_folder() if name == "cdktf.json" else find_project()[0]

    if not found:
        finding = refused(find, f"{name} belongs to another user")
        assert finding.hint == f"if you trust this project: export FAIRWAY_FOLDER={tmp_path}"
        monkeypatch.setenv("FAIRWAY_FOLDER", str(tmp_path))
    assert find() == tmp_path
