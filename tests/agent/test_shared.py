"""The shared folder of a cluster: inputs from other runs, and its health."""

import io
import resource
from collections.abc import Mapping
from pathlib import Path

import pytest

from fairway_agent.shared import runs
from fairway_agent.shared.reports import InputsRequest, RunReport, RunRequest
from fairway_agent.shared.runs import health
from fairway_boot.files import AgentError

PATH = "run-inputs/0123456789abcdef"


def ask(shared: Path, run: str, *paths: str, adopt: bool = False) -> Mapping[str, str]:
    return runs.inputs(shared, InputsRequest(run, paths, adopt), io.BytesIO()).missing


def bring(shared: Path, run: str) -> None:
    """Copies the missing inputs and adopts them, as a client does."""
    (shared / "runs" / run).mkdir(parents=True)
    for draft in ask(shared, run, PATH).values():
        Path(draft).mkdir()
        Path(draft, "x").write_text(run)
    ask(shared, run, PATH, adopt=True)


@pytest.mark.parametrize("withdrawn", [False, True])
def test_shared_input_is_copied_once_and_removed_with_its_last_run(
    tmp_path: Path, withdrawn: bool
) -> None:
    bring(tmp_path, "a-1")
    bring(tmp_path, "a-2")
    assert (tmp_path / PATH / "x").read_text() == "a-1"
    if withdrawn:
        (tmp_path / "runs/a-2").rmdir()
    runs.forget_inputs(tmp_path, "a-1")
    assert (tmp_path / PATH).is_dir() is not withdrawn
    runs.forget_inputs(tmp_path, "a-2")
    assert [path.name for path in (tmp_path / "run-inputs").iterdir()] == [".users"]


def test_shared_input_of_two_runs_is_used_by_both(tmp_path: Path) -> None:
    own = "runs/b-1/tasks/0/outputs/model"
    (tmp_path / own).mkdir(parents=True)
    other = "runs/b-2/tasks/0/outputs/model"
    assert ask(tmp_path, "a-1", own, other).keys() == {other}
    drafts = [Path(ask(tmp_path, run, PATH)[PATH]) for run in ("a-1z", "a-2")]
    for draft in drafts:
        draft.mkdir()
    for run in ("a-1z", "a-2"):
        ask(tmp_path, run, PATH, adopt=True)
    assert not any(draft.exists() for draft in drafts)
    users = (tmp_path / "run-inputs/.users" / Path(PATH).name).iterdir()
    assert {path.name for path in users} == {"a-1z", "a-2"}


def test_shared_folder_that_cannot_be_written_to_is_reported(tmp_path: Path) -> None:
    (tmp_path / "run-inputs").write_text("a file")
    with pytest.raises(AgentError, match="nothing can be written to"):
        ask(tmp_path, "a-1", PATH)


def test_shared_health_creates_the_folder_and_reports_free_space_and_faults(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for name, fault in (("shared/folder", ""), ("file/folder", "Not a directory")):
        found = health(tmp_path / name)
        assert (found.free > 0, found.fault) == (True, fault)
    assert list((tmp_path / "shared/folder").iterdir()) == []


def test_shared_health_of_a_full_folder_reports_the_fault(tmp_path: Path) -> None:
    """Over a quota files can be created but not written."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
    try:
        assert health(tmp_path).fault == "File too large"
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_shared_reports_tolerate_a_run_that_is_removed_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another program on the shared folder may remove a run at any time."""
    tasks = tmp_path / "runs/a-1/tasks"
    tasks.parent.mkdir(parents=True)
    (tasks.parent / "plan.json").touch()
    is_there = Path.is_dir
    monkeypatch.setattr(Path, "is_dir", lambda path: path == tasks or is_there(path))
    assert runs.reports(tmp_path, {"a-1": RunRequest()}) == {"a-1": RunReport(None)}
